/* The registry of probes and what they share. */
#include "probe.h"

struct entry {
    const char *name;
    int min_args;
    probe_fn run;
};

static struct entry table[512];
static int entries;

void probe_register(const char *name, int min_args, probe_fn run)
{
    if (entries == (int)(sizeof table / sizeof table[0])) {
        fprintf(stderr, "probe: table full at %s\n", name);
        exit(BUG);
    }
    table[entries++] = (struct entry){name, min_args, run};
}

int refused(const char *what)
{
    const char *name = strerrorname_np(errno);
    printf("refused %s %s\n", name ? name : "?", what);
    fflush(stdout);
    return REFUSED;
}

int untried(const char *why)
{
    printf("untried %s\n", why);
    fflush(stdout);
    return UNTRIED;
}

int outcome(long result)
{
    return result < 0 ? refused("") : DONE;
}

int mark(int fd)
{
    static const char text[] = "ATTACKED\n";
    return write(fd, text, sizeof text - 1) == (ssize_t)(sizeof text - 1) ? DONE : refused("write");
}

long number(const char *text)
{
    char *end;
    long value = strtol(text, &end, 0);
    if (end == text || *end) {
        fprintf(stderr, "probe: not a number: %s\n", text);
        exit(BUG);
    }
    return value;
}

int open_flags(const char *words)
{
    static const struct {
        const char *word;
        int bits;
    } known[] = {{"rdonly", O_RDONLY},   {"wronly", O_WRONLY},     {"rdwr", O_RDWR},     {"append", O_APPEND},
                 {"creat", O_CREAT},     {"excl", O_EXCL},         {"trunc", O_TRUNC},   {"path", O_PATH},
                 {"tmpfile", O_TMPFILE}, {"directory", O_DIRECTORY}, {"nofollow", O_NOFOLLOW}, {"direct", O_DIRECT},
                 {"sync", O_SYNC},       {"dsync", O_DSYNC},       {"nonblock", O_NONBLOCK}, {"noatime", O_NOATIME},
                 {"access3", O_ACCMODE}, {"noctty", O_NOCTTY},     {"largefile", 0100000}};
    int flags = 0;
    char copy[256];
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok(copy, ","); word; word = strtok(NULL, ",")) {
        size_t i = 0;
        while (i < sizeof known / sizeof known[0] && strcmp(known[i].word, word))
            i++;
        if (i == sizeof known / sizeof known[0]) {
            fprintf(stderr, "probe: unknown flag %s\n", word);
            exit(BUG);
        }
        flags |= known[i].bits;
    }
    return flags;
}

int probe_run(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: probe NAME ARGS...\n");
        return BUG;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; i < entries; i++) {
        if (strcmp(table[i].name, argv[1]))
            continue;
        if (argc - 2 < table[i].min_args) {
            fprintf(stderr, "probe: %s needs %d arguments\n", argv[1], table[i].min_args);
            return BUG;
        }
        return table[i].run(argc - 2, argv + 2);
    }
    fprintf(stderr, "probe: no probe named %s\n", argv[1]);
    return BUG;
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--list")) {
        for (int i = 0; i < entries; i++)
            puts(table[i].name);
        return DONE;
    }
    return probe_run(argc, argv);
}
