# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that is timed: a loop of malloc and free, in C. Kept here because only Python files reach a host."""

SOURCE = r"""
/* loop ITERATIONS SIZE THREADS: "ready", a byte is awaited, the loop, "WALL CPU" in seconds, a byte is awaited. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static unsigned long iterations, size;
static pthread_barrier_t start;

static void fail(const char *what) {
    perror(what);
    _exit(1);
}

/* The volatile stores need the block, so that no compiler can leave malloc and free out. */
static void loop(unsigned long times) {
    for (unsigned long i = 0; i < times; i++) {
        volatile char *block = malloc(size);
        if (!block) fail("malloc");
        block[0] = 1;
        block[size - 1] = 1;
        free((void *) block);
    }
}

static void *worker(void *unused) {
    pthread_barrier_wait(&start);
    loop(iterations);
    return unused;
}

static double seconds(clockid_t clock) {
    struct timespec now;
    if (clock_gettime(clock, &now)) fail("clock_gettime");
    return now.tv_sec + now.tv_nsec / 1e9;
}

static void wait_for_a_byte(void) {
    char byte;
    if (read(0, &byte, 1) != 1) _exit(3);
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    iterations = strtoul(argv[1], NULL, 10);
    size = strtoul(argv[2], NULL, 10);
    unsigned long threads = strtoul(argv[3], NULL, 10);
    loop(1); /* the slots of malloc and free are bound by now */
    puts("ready");
    fflush(stdout);
    wait_for_a_byte();
    double wall, cpu;
    if (threads == 1) { /* no thread is made: allocators spare their locks in a program without threads */
        wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
        loop(iterations);
    } else {
        pthread_t *all = calloc(threads, sizeof *all);
        if (!all || pthread_barrier_init(&start, NULL, threads + 1)) fail("threads");
        for (unsigned long i = 0; i < threads; i++)
            if (pthread_create(&all[i], NULL, worker, NULL)) fail("pthread_create");
        wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
        pthread_barrier_wait(&start);
        for (unsigned long i = 0; i < threads; i++) pthread_join(all[i], NULL);
    }
    wall = seconds(CLOCK_MONOTONIC) - wall, cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("%.9f %.9f\n", wall, cpu);
    fflush(stdout);
    wait_for_a_byte();
    return 0;
}
"""
