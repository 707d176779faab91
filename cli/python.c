/*
 * Hands a command over to Python. The process becomes the interpreter, so that the terminal, signals and the exit code
 * are those of one program.
 *
 * The interpreter: the one that LEAT_PYTHON names; else the one beside this executable, which is how pip and its
 * relatives install both; else python3 of PATH. A wheel may have put the executable elsewhere and a small script into
 * its place: argv[0] then still names the place.
 */
#include "python.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "leat/leat.h"
#include "print.h"

/* The package is found as if by a script: the current folder is no place for packages. It must be of our version,
 * because the pairs that follow have no other contract. Ctrl-C ends it at once until the command takes it. */
static const char start[] =
    "import signal, sys\n"
    "if signal.getsignal(signal.SIGINT) is signal.default_int_handler:\n"
    "    signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
    "sys.path[:] = [p for p in sys.path if p]\n"
    "name, version, *pairs = sys.argv[1:]\n"
    "def stop(text):\n"
    "    sys.stderr.write('leat %s: %s\\n' % (name, text))\n"
    "    sys.exit(2)\n"
    "try:\n"
    "    import leat\n"
    "except ImportError as e:\n"
    "    stop('this part of leat is written in Python, and %s lacks the package leat (%s). Install it there with "
    "pip,'\n"
    "         ' or name the Python that has it: LEAT_PYTHON=PATH.' % (sys.executable, e))\n"
    "if leat.__version__ != version:\n"
    "    stop('the package leat of %s is version %s, and this command is %s: LEAT_PYTHON=PATH names another Python.'\n"
    "         % (sys.executable, leat.__version__, version))\n"
    "from leat.commands.main import main\n"
    "sys.exit(main(name, dict(zip(pairs[::2], pairs[1::2]))))\n";

/* python3 or python in the folder of `path`. */
static bool beside(const char *path, char *out, size_t room)
{
    static const char *const names[] = {"python3", "python"};
    char copy[PATH_MAX];
    if (!strchr(path, '/') || strlen(path) >= sizeof copy)
        return false;
    memcpy(copy, path, strlen(path) + 1);
    const char *folder = dirname(copy);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if ((size_t)snprintf(out, room, "%s/%s", folder, names[i]) < room && !access(out, X_OK))
            return true;
    return false;
}

static const char *find_python(char *out, size_t room)
{
    char self[PATH_MAX];
    const char *named = getenv("LEAT_PYTHON");
    if (named && named[0])
        return named;
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0) {
        self[n] = 0;
        if (beside(self, out, room))
            return out;
    }
    return beside(program_invocation_name, out, room) ? out : "python3";
}

static char **words; /* the arguments of the interpreter, to the end of this process */
static size_t n_words;

static bool add(const char *name, size_t i, const char *value)
{
    char *text;
    if ((i ? asprintf(&text, "%s %zu", name, i) : asprintf(&text, "%s", name)) < 0)
        return false;
    for (char *c = text; (c = strchr(c, '-'));)
        *c = '_';
    words[n_words++] = text;
    words[n_words++] = (char *)(uintptr_t)value;
    return true;
}

/* False: no memory. */
static bool make_words(const struct cli_command *command, const char *python, const void *parsed, const char *name,
                       const struct cli_several *paths, const char *more, const char *value)
{
    const char *const first[] = {python, "-c", start, command->name, leat_version()};
    bool good = (words = calloc(2 * (command->n_options + paths->n + CLI_EACH_MOST) + 8, sizeof *words));
    for (; good && n_words < sizeof first / sizeof *first; n_words++)
        words[n_words] = (char *)(uintptr_t)first[n_words];
    for (size_t i = 0; good && i < paths->n; i++)
        good = add(name, i, paths->at[i]);
    if (good && more)
        good = add(more, 0, value);
    for (size_t i = 0; good && i < command->n_options; i++) {
        const struct cli_option *option = &command->options[i];
        char *text = (char *)(uintptr_t)cli_typed(i);
        if (text && parsed && option->type == CLI_EACH) {
            const struct cli_each *each = (const void *)((const char *)parsed + option->at);
            for (size_t k = 0; good && k < each->n; k++)
                good = add(option->name, k, each->at[k]);
            continue;
        }
        if (text && option->type == CLI_BYTES)
            good =
                asprintf(&text, "%" PRIu64, *(const uint64_t *)(const void *)((const char *)parsed + option->at)) >= 0;
        if (good && text)
            good = add(option->name, 0, text);
    }
    return good;
}

int cli_become_python(const struct cli_command *command, const void *parsed, const char *name,
                      const struct cli_several *paths, const char *more, const char *value)
{
    char place[PATH_MAX + 16];
    const char *python = find_python(place, sizeof place);
    if (!make_words(command, python, parsed, name, paths, more, value)) {
        cli_say(command, "There is no memory to start Python.");
        return CLI_EXIT_FAILED;
    }
    fflush(NULL);
    execvp(python, words);
    if (errno == ENOENT && !strcmp(python, "python3"))
        cli_say(command, "this part of leat is written in Python, and there is no python3 beside leat or in PATH. "
                         "LEAT_PYTHON=PATH names one that has the package leat.");
    else
        cli_say(command, "this part of leat is written in Python, and %s could not be started: %s.", python,
                strerror(errno));
    return CLI_EXIT_FAILED;
}
