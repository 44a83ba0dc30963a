/* SPDX-License-Identifier: GPL-3.0-or-later
 * A preload that spares the flight test (--help) and ends or stops the real server at its start.
 * cc -shared -fPIC -o libcrash.so crash.c          the server aborts
 * cc -shared -fPIC -DHANG -o libhang.so crash.c    the server never gets to main()
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *(*next_malloc)(size_t);
static void (*next_free)(void *);

void *malloc(size_t size)
{
	if (!next_malloc)
		next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
	return next_malloc(size);
}

void free(void *block)
{
	if (!next_free)
		next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
	next_free(block);
}

static int is_a_server(void)
{
	char arguments[4096];
	int server = strstr(program_invocation_short_name, "mariadbd") || strstr(program_invocation_short_name, "mysqld");
	FILE *file = fopen("/proc/self/cmdline", "r");
	size_t i, length = file ? fread(arguments, 1, sizeof arguments - 1, file) : 0;

	if (file)
		fclose(file);
	for (i = 0; i < length; i++)
		if (!arguments[i])
			arguments[i] = ' ';
	arguments[length] = '\0';
	return server && !strstr(arguments, "--help") && !strstr(arguments, "--version") &&
	       !strstr(arguments, "--print-defaults");
}

__attribute__((constructor)) static void strike(void)
{
	if (!is_a_server())
		return;
#ifdef HANG
	for (;;)
		pause();
#else
	abort();
#endif
}
