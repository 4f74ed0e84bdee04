/* Many attacks in one run: the test writes a line for each and reads what became of it before it writes the next, so
 * that a change outside belongs to one row and no other. And the observer that looks at the outside in between. */
#include "probe.h"

enum { WORDS = 64, LINE = 1 << 16 };
static const char mark_of_scratch[] = "@@scratch@@";

/* `word` with the scratch directory's name filled in, which only a process in the sandbox knows. */
static char *with_scratch(const char *word, const char *scratch)
{
    static const size_t length = sizeof mark_of_scratch - 1;
    char *filled = malloc(strlen(word) / length * strlen(scratch) + strlen(word) + 1), *at = filled;
    if (!filled)
        exit(BUG);
    while (*word) {
        if (!strncmp(word, mark_of_scratch, length)) {
            at = stpcpy(at, scratch);
            word += length;
        } else {
            *at++ = *word == '\x1e' ? '\n' : *word; /* a line break, as it travels in a line */
            word++;
        }
    }
    *at = 0;
    return filled;
}

static void one(char **words, int count, const char *directory, int commands)
{
    int null = open("/dev/null", O_RDWR);
    close(commands);
    if (null < 0 || dup2(null, 0) < 0 || dup2(1, 2) < 0 || chdir(directory))
        _exit(BUG);
    if (null > 2)
        close(null);
    if (!strcmp(words[0], "exec")) {
        execvp(words[1], words + 1);
        perror(words[1]);
        _exit(BUG);
    }
    exit(probe_run(count, words));
}

/* `in-turn DIRECTORY SCRATCH ...`: each line is a number and words with \x1f between them, the first of which is `probe`, to
 * run one in a fork of this process, or `exec`. SCRATCH `-` is this environment's directory for temporary files. */
PROBE(p_in_turn, "in-turn", 2)
{
    static char line[LINE];
    const char *scratch = argv[1];
    if (!strcmp(scratch, "-"))
        scratch = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    int commands = fcntl(0, F_DUPFD_CLOEXEC, 200);
    FILE *from = commands < 0 ? NULL : fdopen(commands, "r");
    if (!from)
        return BUG;
    puts("@@ready");
    while (fgets(line, sizeof line, from)) {
        char *words[WORDS + 1], *rest = line, *word;
        int count = 0, status = 0;
        line[strcspn(line, "\n")] = 0;
        while ((word = strsep(&rest, "\x1f")) && count < WORDS)
            words[count++] = with_scratch(word, scratch);
        words[count] = NULL;
        if (count < 3)
            return BUG;
        printf("@@begin %s\n", words[0]);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0)
            one(words + 1, count - 1, argv[0], commands);
        while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
        int code = child < 0 ? BUG : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        printf("\n@@end %s %d\n", words[0], code);
        fflush(stdout);
        while (count > 0)
            free(words[--count]);
    }
    return DONE;
}

/* `watch PATHS -- PATHS`: for each line that comes in, the listing of the first and of what is special in the second;
 * `same` where nothing differs from the last one. */
PROBE(p_watch, "watch", 1)
{
    char asked[64], *last = NULL, *now = NULL;
    size_t size = 0;
    while (fgets(asked, sizeof asked, stdin)) {
        FILE *listing = open_memstream(&now, &size);
        if (!listing)
            return BUG;
        for (int i = 0, special = 0; i < argc; i++) {
            if (!strcmp(argv[i], "--"))
                special = 1;
            else
                snapshot(listing, argv[i], special);
        }
        fclose(listing);
        puts(last && !strcmp(last, now) ? "same" : now);
        puts("end");
        fflush(stdout);
        free(last);
        last = now;
    }
    return DONE;
}
