#include "port/folder.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "engine/reader.h"

#define MOST_NAME 64
#define BACKLOG 128
#define LOOKS 10
#define ELSEWHERE "; another folder is named by folder=, --dir or LEAT_RUNTIME_DIR"

int leat_folder_check_name(const char *name, struct leat_error *error)
{
    const size_t n = name ? strlen(name) : 0;
    bool ok = n && n <= MOST_NAME && name[0] != '.';
    for (size_t i = 0; ok && i < n; i++)
        ok = isalnum((unsigned char)name[i]) || strchr("-_.", name[i]);
    return ok ? LEAT_OK
              : leat_fail(error, LEAT_E_INVALID,
                          "a port's name is 1 to %d letters, digits, '-', '_' and '.', the first no '.', not \"%.80s\"",
                          MOST_NAME, name ? name : "");
}

/* NULL: the user's own is meant. */
static const char *named_folder(const char *given)
{
    const char *named = given && *given ? given : getenv("LEAT_RUNTIME_DIR");
    return named && *named ? named : NULL;
}

bool leat_folder_is_named(const char *given)
{
    return named_folder(given);
}

int leat_folder_path(const char *given, char path[LEAT_FOLDER_PATH], struct leat_error *error)
{
    const char *named = named_folder(given), *runtime = getenv("XDG_RUNTIME_DIR"), *temporary = getenv("TMPDIR");
    int n;
    if (named)
        n = snprintf(path, LEAT_FOLDER_PATH, "%s", named);
    else if (runtime && *runtime == '/' && !access(runtime, W_OK))
        n = snprintf(path, LEAT_FOLDER_PATH, "%s/leat", runtime);
    else
        n = snprintf(path, LEAT_FOLDER_PATH, "%s/leat-%ld", temporary && *temporary == '/' ? temporary : "/tmp",
                     (long)geteuid());
    return n < LEAT_FOLDER_PATH ? LEAT_OK
                                : leat_fail(error, LEAT_E_INVALID,
                                            "the path of the folder of ports has %d bytes, and may have %d" ELSEWHERE,
                                            n, LEAT_FOLDER_PATH - 1);
}

int leat_folder_address(const char *given, const char *name, struct sockaddr_un *address, struct leat_error *error)
{
    char folder[LEAT_FOLDER_PATH];
    int rc = leat_folder_check_name(name, error);
    rc = rc ? rc : leat_folder_path(given, folder, error);
    if (rc)
        return rc;
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    const size_t n = strlen(folder) + strlen(name) + sizeof "/.port";
    if (n > sizeof address->sun_path)
        return leat_fail(error, LEAT_E_INVALID, "%s/%s.port: a socket's path has at most %zu bytes" ELSEWHERE, folder,
                         name, sizeof address->sun_path - 1);
    memcpy(address->sun_path, folder, strlen(folder));
    memcpy(address->sun_path + strlen(folder), "/", 1);
    memcpy(address->sun_path + strlen(folder) + 1, name, strlen(name));
    memcpy(address->sun_path + n - sizeof ".port", ".port", sizeof ".port");
    return LEAT_OK;
}

int leat_folder_kept(const char *given, const char *name, char path[LEAT_FOLDER_PATH], struct leat_error *error)
{
    char here[sizeof((struct sockaddr_un *)NULL)->sun_path];
    int rc = leat_folder_path(given, path, error);
    if (rc || *path == '/' || !getcwd(here, sizeof here))
        return rc;
    const size_t n = strlen(here), m = strlen(path) + 1;
    if (n + 1 + m + strlen(name) + strlen("/.port") > sizeof here)
        return LEAT_OK;
    memmove(path + n + 1, path, m);
    memcpy(path, here, n);
    path[n] = '/';
    return LEAT_OK;
}

int leat_folder_group(const char *name, gid_t *group, struct leat_error *error)
{
    *group = (gid_t)-1;
    if (!name)
        return LEAT_OK;
    char *end;
    const unsigned long number = strtoul(name, &end, 10);
    const bool is_number = isdigit((unsigned char)*name) && !*end && number < UINT32_MAX;
    const struct group *found = is_number ? NULL : getgrnam(name);
    if (!is_number && !found)
        return leat_fail(error, LEAT_E_NOT_FOUND, "there is no group \"%.100s\"", name);
    *group = found ? found->gr_gid : (gid_t)number;
    return LEAT_OK;
}

/* ---- the place of one port ------------------------------------------------------------------- */

static int refused(struct leat_error *error, const char *what, const char *path)
{
    leat_fail_errno(error, LEAT_E_IO, "cannot %s", what);
    leat_error_at_file(error, path, LEAT_NO_OFFSET);
    return LEAT_E_IO;
}

/* The error is the folder's fault, so that another one helps. */
static int unusable(struct leat_error *error, const char *folder)
{
    const size_t n = error ? strlen(error->message) : 0;
    if (error && error->sys_errno != EMFILE && error->sys_errno != ENFILE)
        snprintf(error->message + n, sizeof error->message - n, ELSEWHERE);
    leat_error_at_file(error, folder, LEAT_NO_OFFSET);
    return LEAT_E_IO;
}

static bool is_strangers(const struct stat *st)
{
    return st->st_uid != geteuid() && st->st_uid != 0;
}

/* Somebody else who may write to the folder could put a socket of their own in the place of the port's; so could the
 * owner of a symbolic link to it, by changing the link. */
static int make_folder(const char *folder, gid_t group, struct leat_error *error)
{
    struct stat st, link;
    const bool open = group != (gid_t)-1;
    if (!mkdir(folder, 0700)) {
        if (open && (chown(folder, (uid_t)-1, group) || chmod(folder, 0710)))
            return refused(error, "open the folder of ports to the group", folder);
        return LEAT_OK;
    }
    if (errno != EEXIST) {
        leat_fail_errno(error, LEAT_E_IO, "cannot make the folder of ports");
        return unusable(error, folder);
    }
    if (lstat(folder, &link) || stat(folder, &st)) {
        leat_fail_errno(error, LEAT_E_IO, "cannot look at the folder of ports");
        return unusable(error, folder);
    }
    int rc = LEAT_OK;
    if (is_strangers(&link))
        rc = leat_fail(error, LEAT_E_IO, "the folder of ports %s another user (%ld)",
                       S_ISLNK(link.st_mode) ? "is a symbolic link of" : "belongs to", (long)link.st_uid);
    else if (is_strangers(&st))
        rc = leat_fail(error, LEAT_E_IO, "the folder of ports belongs to another user (%ld)", (long)st.st_uid);
    else if (!S_ISDIR(st.st_mode))
        rc = leat_fail(error, LEAT_E_IO, "the folder of ports is no folder");
    else if (st.st_mode & S_IWOTH && !(st.st_mode & S_ISVTX))
        rc = leat_fail(error, LEAT_E_IO, "everybody may write to the folder of ports: chmod o-w");
    else if (st.st_mode & S_IWGRP && !(st.st_mode & S_ISVTX) && st.st_gid != group)
        rc = leat_fail(error, LEAT_E_IO,
                       "the members of a group (%ld) may write to the folder of ports: chmod g-w, or open the port to "
                       "that group (group=, --group)",
                       (long)st.st_gid);
    return rc ? unusable(error, folder) : LEAT_OK;
}

/* `pid`: that of its owner, present or former; 0: not known. */
static bool is_locked(const char *path, json_int_t *pid)
{
    char text[32] = "";
    *pid = 0;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return errno == EACCES; /* another user's: it does not answer */
    const bool locked = flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
    if (read(fd, text, sizeof text - 1) > 0)
        *pid = strtol(text, NULL, 10);
    close(fd);
    return locked;
}

/* A process has the name of a port, and there is no socket. Such a port can neither be reached nor stopped. */
static int say_no_socket(int code, const char *name, const char *lock_path, struct leat_error *error)
{
    char who[48] = "a process";
    json_int_t pid;
    is_locked(lock_path, &pid);
    if (pid > 0)
        snprintf(who, sizeof who, "process %" JSON_INTEGER_FORMAT, pid);
    leat_fail(error, code,
              "%s has the name \"%s\", and its port has no socket: it is just starting, or the socket was removed "
              "from outside; end that process, or choose another name",
              who, name);
    leat_error_at_file(error, lock_path, LEAT_NO_OFFSET);
    return code;
}

static int take_lock(struct leat_place *p, const char *name, struct leat_error *error)
{
    for (int tries = 0; tries < 100; tries++) {
        struct stat held, named;
        p->lock = open(p->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (p->lock < 0) {
            leat_fail_errno(error, LEAT_E_IO, "cannot make the lock of the port");
            return unusable(error, p->lock_path);
        }
        if (flock(p->lock, LOCK_EX | LOCK_NB)) {
            const bool other = errno == EWOULDBLOCK;
            if (!other)
                leat_fail_errno(error, LEAT_E_IO, "cannot lock the port's name");
            int rc = other ? LEAT_E_EXISTS : unusable(error, p->lock_path);
            close(p->lock);
            p->lock = -1;
            if (!other)
                return rc;
            if (tries < LOOKS) { /* leat_ports has it for a moment to see whether somebody holds it */
                nanosleep(&(struct timespec){0, 5000000}, NULL);
                continue;
            }
            if (access(p->address.sun_path, F_OK))
                return say_no_socket(LEAT_E_EXISTS, name, p->lock_path, error);
            return leat_fail(error, rc,
                             "a port \"%s\" is open already: close it, end it with leat port stop %s, or choose "
                             "another name",
                             name, name);
        }
        /* A process that left a moment ago has removed the name that was opened here. */
        if (!fstat(p->lock, &held) && !stat(p->lock_path, &named) && held.st_ino == named.st_ino)
            return !ftruncate(p->lock, 0) && dprintf(p->lock, "%ld\n", (long)getpid()) > 0
                       ? LEAT_OK
                       : refused(error, "write the lock of the port", p->lock_path);
        close(p->lock);
        p->lock = -1;
    }
    return leat_fail(error, LEAT_E_IO, "the lock of port \"%s\" is removed again and again", name);
}

static int listen_at(struct leat_place *p, gid_t group, struct leat_error *error)
{
    const char *path = p->address.sun_path;
    const bool open = group != (gid_t)-1;
    struct stat st;
    if (!lstat(path, &st) && !S_ISSOCK(st.st_mode)) {
        errno = EEXIST;
        return refused(error, "put a socket where another file lies", path);
    }
    unlink(path); /* of a process that died: the lock is ours */
    p->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const mode_t before = umask(0177);
    int rc = p->socket < 0 || bind(p->socket, (const struct sockaddr *)&p->address, sizeof p->address)
                 ? refused(error, "make the socket of the port", path)
                 : LEAT_OK;
    umask(before);
    if (!rc && open && (chown(path, (uid_t)-1, group) || chmod(path, 0660)))
        rc = refused(error, "open the socket of the port to the group", path);
    if (!rc && listen(p->socket, BACKLOG))
        rc = refused(error, "listen at the socket of the port", path);
    return rc;
}

int leat_place_take(const char *folder, const char *name, gid_t group, struct leat_place *out, struct leat_error *error)
{
    char path[LEAT_FOLDER_PATH];
    *out = (struct leat_place){.lock = -1, .socket = -1};
    int rc = leat_folder_check_name(name, error);
    rc = rc ? rc : leat_folder_kept(folder, name, path, error);
    rc = rc ? rc : leat_folder_address(path, name, &out->address, error);
    rc = rc ? rc : make_folder(path, group, error);
    if (rc)
        return rc;
    snprintf(out->lock_path, sizeof out->lock_path, "%s/%s.lock", path, name);
    rc = take_lock(out, name, error);
    rc = rc ? rc : listen_at(out, group, error);
    if (rc)
        leat_place_leave(out);
    return rc;
}

void leat_place_leave(struct leat_place *p)
{
    if (p->lock >= 0 && p->socket >= 0)
        unlink(p->address.sun_path);
    if (p->lock >= 0)
        unlink(p->lock_path);
    if (p->socket >= 0)
        close(p->socket);
    if (p->lock >= 0)
        close(p->lock);
    p->lock = p->socket = -1;
}

/* A folder that nobody has named, /tmp/leat-UID, may have been made by anybody. */
static int check_owner(int fd, const char *name, struct leat_error *error)
{
    struct ucred who;
    socklen_t size = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size))
        return leat_fail_errno(error, LEAT_E_IO, "cannot find out whose port \"%s\" is", name);
    return who.uid == geteuid() || who.uid == 0
               ? LEAT_OK
               : leat_fail(error, LEAT_E_IO,
                           "port \"%s\" belongs to another user (%ld), who may serve anything: if that is meant, name "
                           "its folder (folder=, --dir, LEAT_RUNTIME_DIR)",
                           name, (long)who.uid);
}

int leat_place_connect(const char *folder, const char *name, int *fd, struct leat_error *error)
{
    struct sockaddr_un address;
    int rc = leat_folder_address(folder, name, &address, error);
    if (rc)
        return rc;
    *fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (*fd < 0)
        return leat_fail_errno(error, LEAT_E_IO, "cannot make a socket for port \"%s\"", name);
    if (!connect(*fd, (const struct sockaddr *)&address, sizeof address)) {
        rc = named_folder(folder) ? LEAT_OK : check_owner(*fd, name, error);
        if (rc) {
            leat_error_at_file(error, address.sun_path, LEAT_NO_OFFSET);
            close(*fd);
            *fd = -1;
        }
        return rc;
    }
    const int why = errno;
    char lock[LEAT_FOLDER_PATH];
    json_int_t pid;
    const size_t n = strlen(address.sun_path) - strlen(".port");
    snprintf(lock, sizeof lock, "%.*s.lock", (int)n, address.sun_path);
    if (why == ENOENT && is_locked(lock, &pid)) {
        rc = say_no_socket(LEAT_E_NOT_FOUND, name, lock, error);
        close(*fd);
        *fd = -1;
        return rc;
    }
    errno = why;
    const bool missing = errno == ENOENT || errno == ECONNREFUSED;
    rc = missing ? leat_fail(error, LEAT_E_NOT_FOUND,
                             errno == ENOENT ? "there is no port \"%s\": start it with leat serve ... --name %s, or "
                                               "look which there are with leat port ls"
                                             : "the process of port \"%s\" is dead: start it again with leat serve "
                                               "... --name %s",
                             name, name)
                 : leat_fail_errno(error, LEAT_E_IO, "cannot attach to port \"%s\"%s", name,
                                   errno == EACCES ? ", which is open to its own user and to the group that it was "
                                                     "opened with (group=, --group)"
                                                   : "");
    leat_error_at_file(error, address.sun_path, LEAT_NO_OFFSET);
    close(*fd);
    *fd = -1;
    return rc;
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* Removes the socket of a process that is dead: its lock is free, and is still the one that has that name. */
static bool clear_away(const char *socket, const char *lock)
{
    struct stat st, held, named;
    bool gone = false;
    const int fd = open(lock, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    if (!flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &held) && !lstat(lock, &named) && held.st_ino == named.st_ino &&
        !lstat(socket, &st) && S_ISSOCK(st.st_mode))
        gone = !unlink(socket) && !unlink(lock);
    close(fd);
    return gone;
}

int leat_ports(const char *given, char **json, struct leat_error *error)
{
    char folder[LEAT_FOLDER_PATH], path[LEAT_FOLDER_PATH + 300], lock[LEAT_FOLDER_PATH + 300];
    *json = NULL;
    int rc = leat_folder_path(given, folder, error);
    if (rc)
        return rc;
    struct dirent **names = NULL;
    const int n = scandir(folder, &names, NULL, alphasort);
    if (n < 0 && errno != ENOENT)
        return refused(error, "read the folder of ports", folder);
    json_t *list = json_array();
    int failed = !list;
    for (int i = 0; i < n; i++) {
        char *name = names[i]->d_name, *end = name + strlen(name) - strlen(".port");
        if (end > name && !strcmp(end, ".port")) {
            snprintf(path, sizeof path, "%s/%s", folder, name);
            *end = 0;
            snprintf(lock, sizeof lock, "%s/%s.lock", folder, name);
            json_int_t pid;
            const bool alive = is_locked(lock, &pid);
            json_t *where = alive || !clear_away(path, lock) ? json_string(path) : NULL;
            failed =
                failed || (where && json_array_append_new(list, json_pack("{s:s, s:I, s:b, s:o}", "name", name, "pid",
                                                                          pid, "alive", (int)alive, "path", where)));
        }
        free(names[i]);
    }
    free(names);
    return leat_reader_text(leat_json_whole(list, failed), json, error);
}
