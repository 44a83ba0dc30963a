/* SPDX-License-Identifier: GPL-3.0-or-later
 * A preload with an allocator's malloc and free. It spares the flight test (--help) and spoils the real server:
 * cc -shared -fPIC -o libbad.so crash.c              aborts at the start
 * cc -shared -fPIC -DHANG -o libbad.so crash.c       never gets to main()
 * cc -shared -fPIC -DMUTE -o libbad.so crash.c       accepts connections, but never hears what a client says
 * cc -shared -fPIC -DLATER=2 -o libbad.so crash.c    aborts at the first malloc that comes 2 s after it began to listen
 * cc -shared -fPIC -DSLOW=50 -o libbad.so crash.c    takes 50 ms more for each read and write until it listens
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

static int server;
static time_t listening;

void *malloc(size_t size)
{
	static void *(*next)(size_t);

	if (!next)
		next = NEXT(malloc);
#ifdef LATER
	if (listening && time(NULL) >= listening + LATER)
		abort();
#endif
	return next(size);
}

void free(void *block)
{
	static void (*next)(void *);

	if (!next)
		next = NEXT(free);
	next(block);
}

int listen(int socket, int backlog)
{
	if (server)
		listening = time(NULL);
	return NEXT(listen)(socket, backlog);
}

#ifdef MUTE
ssize_t recv(int socket, void *buffer, size_t length, int flags)
{
	while (server)
		pause();
	return NEXT(recv)(socket, buffer, length, flags);
}
#endif

#ifdef SLOW
static void dawdle(void)
{
	if (server && !listening)
		usleep(SLOW * 1000);
}

ssize_t pread64(int file, void *buffer, size_t length, off64_t offset)
{
	dawdle();
	return NEXT(pread64)(file, buffer, length, offset);
}

ssize_t pwrite64(int file, const void *buffer, size_t length, off64_t offset)
{
	dawdle();
	return NEXT(pwrite64)(file, buffer, length, offset);
}
#endif

static int is_a_server(void)
{
	char arguments[4096];
	int named = strstr(program_invocation_short_name, "mariadbd") || strstr(program_invocation_short_name, "mysqld");
	FILE *file = fopen("/proc/self/cmdline", "r");
	size_t i, length = file ? fread(arguments, 1, sizeof arguments - 1, file) : 0;

	if (file)
		fclose(file);
	for (i = 0; i < length; i++)
		if (!arguments[i])
			arguments[i] = ' ';
	arguments[length] = '\0';
	return named && !strstr(arguments, "--help") && !strstr(arguments, "--version") &&
	       !strstr(arguments, "--print-defaults");
}

__attribute__((constructor)) static void strike(void)
{
	server = is_a_server();
#ifdef HANG
	while (server)
		pause();
#endif
#if !defined(HANG) && !defined(MUTE) && !defined(LATER) && !defined(SLOW)
	if (server)
		abort();
#endif
}
