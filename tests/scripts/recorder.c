/* SPDX-License-Identifier: GPL-3.0-or-later
   Stands for a helper program, or for the server, under its name: writes down its preload and its allocator's variable, then
   becomes the real program (REAL/NAME), or the stage's server. Static, so that no preload is loaded into it. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *value(const char *name)
{
    const char *found = getenv(name);
    return found ? found : "";
}

int main(int argc, char **argv)
{
    const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];
    char path[4096], line[8192];
    int length, record;

    snprintf(path, sizeof path, "%s/record", value("STAGE"));
    record = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    length = snprintf(line, sizeof line, "%s\t%s\t%s\n", name, value("LD_PRELOAD"), value("MALLOC_CONF"));
    if (record < 0 || write(record, line, length) != length)
        return 97;
    close(record);
    if (!strcmp(name, "sleep"))
        return 0;
    if (!strcmp(name, "numactl")) { /* numactl --interleave=all COMMAND... */
        execvp(argv[2], argv + 2);
        return 98;
    }
    if (strstr(name, "safe_helper") || strstr(name, "safe-helper")) { /* MariaDB's: USER exec COMMAND..., or USER log FILE */
        if (argc > 3 && !strcmp(argv[2], "exec")) {
            execvp(argv[3], argv + 3);
            return 98;
        }
        name = "logger";
    }
    if (!strcmp(name, "logger"))
        snprintf(path, sizeof path, "%s/logger", value("STAGE"));
    else if (!strcmp(name, "mysqld") || !strcmp(name, "mariadbd"))
        snprintf(path, sizeof path, "%s/server", value("STAGE"));
    else
        snprintf(path, sizeof path, "%s/%s", value("REAL"), name);
    execv(path, argv);
    return argc > 0 ? 99 : 0;
}
