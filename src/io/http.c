/*
 * Files of a web server, read by range requests. One thread does the talking for the whole process:
 *
 *     submit, cancel  --> queue -->  thread: as many as there are connections are   --> done(request), on that thread
 *     (any thread)        (lock)     with curl's multi interface, the others wait
 *
 * curl says which sockets it waits for, and learns which of them are ready: a thousand connections cost no more per
 * request than one.
 *
 * The first answer defines a file: its length, ETag and time of modification. Each later answer is compared with that,
 * so that an object that was replaced is LEAT_E_CHANGED and never a mixture. One request is one attempt: if trying
 * again may help, it gives the delay, and the waiting side tries again (leat_io_wait; the engine, on its timer).
 *
 * A forked child starts a thread of its own at its first request; the parent's connections are left alone.
 */
#include <ctype.h>
#include <curl/curl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "io/file.h"
#include "io/http.h"

/* Connections to one server: as many as common servers grant one client; at a latency of 50 ms that is 2,500 requests a
 * second. The environment variable LEAT_HTTP_CONNECTIONS sets another number, up to MOST_CONNECTIONS; files that the
 * process may have open bound it, too. curl gets no more requests than that at a time, for each of them costs it time
 * with every other. */
enum { CONNECTIONS = 128, MOST_CONNECTIONS = 4096, REDIRECTS = 5, ERROR_BODY = 64 << 10, EVENTS = 64 };
#define READ_BUFFER (128L << 10) /* each connection has one */
#define LEAST_SPEED 64L          /* bytes a second of each: less for leat_http_stall_s is no answer */
#define CONNECT_TIMEOUT_MS 15000L

LEAT_REPLACEABLE long leat_http_stall_s(void)
{
    return 30;
}

/* A server, "http://host:80", for the rest of the process. */
struct server {
    struct server *next;
    struct transfer *queue, **queue_end; /* under the lock */
    size_t n_active;                     /* the thread's */
    size_t name_bytes;
    char name[];
};

struct http_file {
    struct leat_io_file file;
    struct server *server;
    char etag[128], modified[64]; /* "" if the server gave none */
    char url[];
};

/* The state of one answer so far. */
struct answer {
    char etag[128], modified[64];
    uint64_t first, last, size; /* of Content-Range; size is UINT64_MAX if it was not given */
    unsigned retry_after_ms;
    bool ranged, encoded;
};

struct transfer {
    struct leat_io_request *request;
    struct transfer *next, *previous; /* in the queue; then among active ones, which are the thread's */
    CURL *easy;                       /* while it is active */
    struct answer answer;
    uint64_t received; /* bytes of the body */
    uint64_t size;     /* opening: the server's facts */
    bool opening, whole, too_long;
    atomic_bool cancelled;
    char text[CURL_ERROR_SIZE];
};

static struct {
    pthread_mutex_t lock;
    pthread_t thread;
    bool started, stopping, cancelling;
    int bell; /* an eventfd: there is something for the thread to see */
    struct server *servers;
    /* the thread's own */
    CURLM *multi;
    int events; /* epoll: the bell and curl's sockets */
    int64_t due_ns;
    struct transfer *active;
    CURL **idle; /* handles, to be used again */
    size_t n_idle, connections;
} http = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- the head of an answer ------------------------------------------------------------------ */

static void copy_text(char *to, size_t room, const char *from, size_t n)
{
    while (n && isspace((unsigned char)*from)) {
        from++;
        n--;
    }
    while (n && isspace((unsigned char)from[n - 1]))
        n--;
    n = n < room ? n : room - 1;
    memcpy(to, from, n);
    to[n] = 0;
}

/* "bytes 0-99/1000", or "bytes *" "/1000" of a range that is not there. */
static void take_range(struct answer *a, const char *text)
{
    char *end;
    if (strncasecmp(text, "bytes", 5))
        return;
    text += 5 + strspn(text + 5, " =");
    if (*text != '*') {
        a->first = strtoull(text, &end, 10);
        if (end == text || *end != '-')
            return;
        text = end + 1;
        a->last = strtoull(text, &end, 10);
        a->ranged = end != text;
        text = end;
    } else {
        text++;
    }
    if (*text == '/' && isdigit((unsigned char)text[1]))
        a->size = strtoull(text + 1, NULL, 10);
}

static bool is_header(const char *line, size_t n, const char *name, char *value, size_t room)
{
    size_t length = strlen(name);
    if (n <= length || strncasecmp(line, name, length) || line[length] != ':')
        return false;
    copy_text(value, room, line + length + 1, n - length - 1);
    return true;
}

/* Whether a Content-Encoding names a compression; "identity" and the like of others say nothing. */
static bool compresses(const char *encoding)
{
    static const char *const known[] = {"gzip", "x-gzip", "deflate", "br", "zstd", "compress", "x-compress"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const size_t n = strlen(known[i]);
        for (const char *p = encoding; (p = strcasestr(p, known[i])); p += n)
            if ((p == encoding || strchr(", ", p[-1])) && (!p[n] || strchr(", ;", p[n])))
                return true;
    }
    return false;
}

static size_t on_header(char *line, size_t size, size_t count, void *user)
{
    struct transfer *t = user;
    size_t n = size * count;
    char value[128];
    if (n >= 5 && !strncasecmp(line, "HTTP/", 5))
        t->answer = (struct answer){.size = UINT64_MAX}; /* of an answer that redirects, nothing stays */
    else if (is_header(line, n, "ETag", value, sizeof value))
        snprintf(t->answer.etag, sizeof t->answer.etag, "%s", value);
    else if (is_header(line, n, "Last-Modified", value, sizeof t->answer.modified))
        snprintf(t->answer.modified, sizeof t->answer.modified, "%.60s", value);
    else if (is_header(line, n, "Content-Range", value, sizeof value))
        take_range(&t->answer, value);
    else if (is_header(line, n, "Content-Encoding", value, sizeof value))
        t->answer.encoded |= compresses(value);
    else if (is_header(line, n, "Retry-After", value, sizeof value) && isdigit((unsigned char)*value)) {
        unsigned long seconds = strtoul(value, NULL, 10);
        t->answer.retry_after_ms = seconds > 600 ? 600000 : (unsigned)seconds * 1000;
    }
    return n;
}

/* Bytes go straight to their destination; those of an answer that is an error are let go. */
static size_t on_body(char *bytes, size_t size, size_t count, void *user)
{
    struct transfer *t = user;
    size_t n = size * count;
    long code = 0;
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &code);
    if (code != 206 && !(code == 200 && t->whole)) {
        t->received += n;
        t->too_long = code == 200; /* a whole file in the place of a range */
        return t->too_long || t->received > ERROR_BODY ? 0 : n;
    }
    if (n > t->request->length - t->received) {
        t->too_long = true;
        return 0;
    }
    memcpy((uint8_t *)t->request->buffer + t->received, bytes, n);
    t->received += n;
    return n;
}

/* ---- the result ------------------------------------------------------------------------------ */

static int fail(struct transfer *t, int code, unsigned retry_after_ms, const char *what)
{
    struct leat_io_request *r = t->request;
    const char *url = r->file->path;
    leat_fail(&r->error, code, "%s: %s", url, what);
    leat_error_at_file(&r->error, url, t->opening || r->offset > INT64_MAX ? LEAT_NO_OFFSET : (int64_t)r->offset);
    r->retry_after_ms = retry_after_ms;
    return code;
}

enum { SOON_MS = 50 };
#define OTHER_RANGE "the server answered with another range than was asked for"

static int status_failed(struct transfer *t, long code)
{
    char what[256];
    unsigned wait = t->answer.retry_after_ms > SOON_MS ? t->answer.retry_after_ms : SOON_MS;
    switch (code) {
    case 401:
    case 403:
    case 407:
        snprintf(what, sizeof what, "the server refuses access (%ld): check the address and who may read it", code);
        return fail(t, LEAT_E_IO, 0, what);
    case 404:
    case 410:
        return t->opening ? fail(t, LEAT_E_NOT_FOUND, 0, "the server has no such file (404)")
                          : fail(t, LEAT_E_CHANGED, 0, "it was removed after it was opened (404)");
    case 412:
    case 416:
        return fail(t, LEAT_E_CHANGED, 0, "it is another file than was opened: open it again");
    case 408:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504:
        snprintf(what, sizeof what, "the server cannot answer now (%ld%s)", code,
                 code == 429 ? ", too many requests" : "");
        return fail(t, LEAT_E_IO, wait, what);
    default:
        snprintf(what, sizeof what, "the server answered with status %ld, where 206 (a range of bytes) is needed",
                 code);
        return fail(t, code == 200 ? LEAT_E_UNSUPPORTED : LEAT_E_IO, 0, what);
    }
}

static int curl_failed(struct transfer *t, CURLcode code)
{
    char what[CURL_ERROR_SIZE + 64];
    const char *text = *t->text ? t->text : curl_easy_strerror(code);
    switch (code) {
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
        snprintf(what, sizeof what, "this is no address that can be read: %s", text);
        return fail(t, LEAT_E_INVALID, 0, what);
    case CURLE_TOO_MANY_REDIRECTS:
        return fail(t, LEAT_E_IO, 0, "the server redirects without end");
    case CURLE_PEER_FAILED_VERIFICATION:
        snprintf(what, sizeof what, "the server's certificate is not trusted: %s", text);
        return fail(t, LEAT_E_IO, 0, what);
    case CURLE_OUT_OF_MEMORY:
        return fail(t, LEAT_E_NOMEM, 0, "no memory to read from the server");
    case CURLE_OPERATION_TIMEDOUT:
        snprintf(what, sizeof what, "the server does not answer: %s", text);
        return fail(t, LEAT_E_IO, SOON_MS, what);
    default:
        snprintf(what, sizeof what, "reading from the server failed: %s", text);
        return fail(t, LEAT_E_IO, SOON_MS, what);
    }
}

/* An answer that is not of the file that was opened. */
static bool is_other(const struct transfer *t)
{
    const struct http_file *f = (const struct http_file *)t->request->file;
    const struct answer *a = &t->answer;
    return (*f->etag && *a->etag && strcmp(f->etag, a->etag)) ||
           (*f->modified && *a->modified && strcmp(f->modified, a->modified)) ||
           (a->size != UINT64_MAX && a->size != f->file.size);
}

/* An answer whose bytes are not the file's: the server compresses what it sends. Some name the compression of a file
 * that lies there compressed, and send it as it is. */
static bool is_encoded(const struct transfer *t)
{
    static const char *const endings[] = {".gz", ".tgz", ".zst", ".tzst"};
    const char *url = t->request->file->path;
    const size_t length = strcspn(url, "?#");
    bool compressed = false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t n = strlen(endings[i]);
        compressed |= length > n && !strncasecmp(url + length - n, endings[i], n);
    }
    return t->answer.encoded && !compressed;
}

static int judge_opening(struct transfer *t, CURLcode code, long status)
{
    const struct answer *a = &t->answer;
    if (status == 416 && a->size == 0) {
        t->size = 0;
        return LEAT_OK;
    }
    curl_off_t length = -1;
    curl_easy_getinfo(t->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    if (status == 200 && length == 0) { /* servers answer so if there is no first byte */
        t->size = 0;
        return LEAT_OK;
    }
    if (status == 200)
        return fail(
            t, LEAT_E_UNSUPPORTED, 0,
            "the server does not answer requests for ranges of bytes (status 200 in the place of 206): copy the "
            "file here, or serve it by one that does");
    if (status && status != 206)
        return status_failed(t, status);
    if (code && !t->too_long)
        return curl_failed(t, code);
    if (!a->ranged || a->size == UINT64_MAX || a->size > INT64_MAX)
        return fail(t, LEAT_E_UNSUPPORTED, 0, "the server does not say how long the file is (Content-Range)");
    if (a->first != t->request->offset)
        return fail(t, LEAT_E_IO, SOON_MS, OTHER_RANGE);
    t->size = a->size;
    return LEAT_OK;
}

static int judge(struct transfer *t, CURLcode code)
{
    const struct leat_io_request *r = t->request;
    const struct answer *a = &t->answer;
    long status = 0;
    if (t->cancelled)
        return fail(t, LEAT_E_CANCELLED, 0, "the read was cancelled");
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    if (code && status / 100 == 3) /* of a redirection that went nowhere */
        return curl_failed(t, code);
    if ((status == 206 || status == 200) && is_encoded(t))
        return fail(t, LEAT_E_UNSUPPORTED, 0,
                    "the server compresses what it sends (Content-Encoding), so that ranges are not those of the file: "
                    "switch that off for it, or copy the file here");
    if (t->opening)
        return judge_opening(t, code, status);
    if ((status == 206 || status == 200) && is_other(t))
        return fail(t, LEAT_E_CHANGED, 0, "it was replaced after it was opened: open it again");
    if (status == 200 && !t->whole)
        return status_failed(t, status);
    if (status && status != 206 && status != 200)
        return status_failed(t, status);
    if (t->too_long || (status == 206 && (!a->ranged || a->first != r->offset || a->last - a->first != r->length - 1)))
        return fail(t, LEAT_E_IO, SOON_MS, OTHER_RANGE);
    if (code)
        return curl_failed(t, code);
    return t->received == r->length ? LEAT_OK : fail(t, LEAT_E_IO, SOON_MS, "the server's answer ends early");
}

/* ---- the thread --------------------------------------------------------------------------------- */

/* On the thread, without the lock. `done` may free the request. */
static void complete(struct transfer *t, CURLcode code)
{
    struct leat_io_request *r = t->request;
    int rc = judge(t, code);
    if (t->opening && !rc) {
        struct http_file *f = (struct http_file *)r->file;
        f->file.size = t->size;
        snprintf(f->etag, sizeof f->etag, "%s", t->answer.etag);
        snprintf(f->modified, sizeof f->modified, "%s", t->answer.modified);
    }
    r->status = rc;
    pthread_mutex_lock(&http.lock);
    r->backend_state = NULL;
    pthread_mutex_unlock(&http.lock);
    r->done(r, r->user);
    if (t->easy && http.n_idle < http.connections)
        http.idle[http.n_idle++] = t->easy;
    else
        curl_easy_cleanup(t->easy);
    leat_free(t);
}

static struct server *server_of(const struct leat_io_request *r)
{
    return ((const struct http_file *)r->file)->server;
}

/* A handle, with all that is the same for each request. */
static CURL *new_handle(void)
{
    CURL *e = http.n_idle ? http.idle[--http.n_idle] : NULL;
    if (e || !(e = curl_easy_init()))
        return e;
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(e, CURLOPT_MAXREDIRS, (long)REDIRECTS);
    curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, LEAST_SPEED);
    curl_easy_setopt(e, CURLOPT_BUFFERSIZE, READ_BUFFER);
    curl_easy_setopt(e, CURLOPT_PIPEWAIT, 1L); /* if the server speaks HTTP/2, requests share connections */
    curl_easy_setopt(e, CURLOPT_USERAGENT, "leat/" LEAT_VERSION);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    return e;
}

static void begin(struct transfer *t)
{
    const struct leat_io_request *r = t->request;
    const struct http_file *f = (const struct http_file *)r->file;
    char range[64];
    CURL *e = t->easy = t->cancelled ? NULL : new_handle();
    if (!e) {
        complete(t, CURLE_OUT_OF_MEMORY);
        return;
    }
    t->answer = (struct answer){.size = UINT64_MAX};
    t->whole = !t->opening && r->offset == 0 && r->length == f->file.size;
    snprintf(range, sizeof range, "%" PRIu64 "-%" PRIu64, r->offset, r->offset + r->length - 1);
    const char *url = f->url;
    curl_easy_setopt(e, CURLOPT_URL, url);
    curl_easy_setopt(e, CURLOPT_RANGE, range);
    curl_easy_setopt(e, CURLOPT_PRIVATE, t);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, t->text);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(e, CURLOPT_LOW_SPEED_TIME, leat_http_stall_s());
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
    if (curl_multi_add_handle(http.multi, e)) {
        complete(t, CURLE_OUT_OF_MEMORY);
        return;
    }
    t->next = http.active;
    t->previous = NULL;
    if (t->next)
        t->next->previous = t;
    http.active = t;
    f->server->n_active++;
}

static void end(struct transfer *t, CURLcode code)
{
    curl_multi_remove_handle(http.multi, t->easy);
    *(t->previous ? &t->previous->next : &http.active) = t->next;
    if (t->next)
        t->next->previous = t->previous;
    server_of(t->request)->n_active--;
    complete(t, code);
}

static void take_queue(struct server *server)
{
    while (server->n_active < http.connections) {
        pthread_mutex_lock(&http.lock);
        struct transfer *t = server->queue;
        server->queue = t ? t->next : NULL;
        server->queue_end = server->queue ? server->queue_end : &server->queue;
        pthread_mutex_unlock(&http.lock);
        if (!t)
            return;
        begin(t);
    }
}

/* Ends cancelled requests, waiting or active. */
static void take_cancelled(void)
{
    struct transfer *list = NULL, *next;
    pthread_mutex_lock(&http.lock);
    bool any = http.cancelling;
    http.cancelling = false;
    for (struct server *server = any ? http.servers : NULL; server; server = server->next)
        for (struct transfer *t, **p = server->queue_end = &server->queue; (t = *p);) {
            if (!t->cancelled) {
                server->queue_end = p = &t->next;
                continue;
            }
            *p = t->next;
            t->next = list;
            list = t;
        }
    pthread_mutex_unlock(&http.lock);
    for (struct transfer *t = list; t; t = next) {
        next = t->next;
        complete(t, CURLE_OK);
    }
    for (struct transfer *t = any ? http.active : NULL; t; t = next) {
        next = t->next;
        if (t->cancelled)
            end(t, CURLE_OK);
    }
}

static int on_socket(CURL *easy, curl_socket_t s, int what, void *user, void *known)
{
    struct epoll_event event = {.events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u),
                                .data.fd = s};
    if (what == CURL_POLL_REMOVE)
        epoll_ctl(http.events, EPOLL_CTL_DEL, s, NULL);
    else if (epoll_ctl(http.events, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, s, &event))
        return -1;
    if (!known)
        curl_multi_assign(http.multi, s, &http);
    return 0;
}

static int on_timer(CURLM *multi, long ms, void *user)
{
    http.due_ns = ms < 0 ? INT64_MAX : leat_clock_ns() + (int64_t)ms * 1000000;
    return 0;
}

static void tell_curl(void)
{
    struct epoll_event events[EVENTS];
    int running, left;
    int64_t now = leat_clock_ns(), wait = http.due_ns - now;
    int n = epoll_wait(http.events, events, EVENTS,
                       wait <= 0                     ? 0
                       : wait > INT64_C(10000000000) ? 10000
                                                     : (int)((wait + 999999) / 1000000));
    for (int i = 0; i < n; i++) {
        uint32_t e = events[i].events;
        uint64_t count;
        if (events[i].data.fd == http.bell)
            (void)!read(http.bell, &count, sizeof count);
        else
            curl_multi_socket_action(http.multi, events[i].data.fd,
                                     (e & (EPOLLIN | EPOLLHUP) ? CURL_CSELECT_IN : 0) |
                                         (e & EPOLLOUT ? CURL_CSELECT_OUT : 0) | (e & EPOLLERR ? CURL_CSELECT_ERR : 0),
                                     &running);
    }
    if (leat_clock_ns() >= http.due_ns) {
        http.due_ns = INT64_MAX;
        curl_multi_socket_action(http.multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
    for (CURLMsg *m; (m = curl_multi_info_read(http.multi, &left));) {
        struct transfer *t = NULL;
        CURLcode code = m->data.result;
        if (m->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&t);
        end(t, code);
    }
}

static void *talk(void *unused)
{
    for (;;) {
        pthread_mutex_lock(&http.lock);
        bool stopping = http.stopping;
        struct server *servers = http.servers; /* more come at the front */
        pthread_mutex_unlock(&http.lock);
        if (stopping)
            return NULL;
        take_cancelled();
        for (; servers; servers = servers->next)
            take_queue(servers);
        tell_curl();
    }
}

/* ---- starting, forking, ending -------------------------------------------------------------- */

static void before_fork(void)
{
    pthread_mutex_lock(&http.lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&http.lock);
}

/* The work of the parent's thread is the parent's: its memory here is left, and its sockets are not touched. */
static void in_child(void)
{
    pthread_mutex_init(&http.lock, NULL);
    if (http.started) { /* a descriptor of the parent's epoll would hear of its sockets */
        close(http.events);
        close(http.bell);
    }
    http.started = http.stopping = http.cancelling = false;
    http.multi = NULL;
    http.active = NULL;
    http.idle = NULL;
    http.n_idle = 0;
    for (struct server *server = http.servers; server; server = server->next) {
        server->queue = NULL;
        server->queue_end = &server->queue;
        server->n_active = 0;
    }
}

static void ring(void)
{
    (void)!write(http.bell, &(uint64_t){1}, sizeof(uint64_t));
}

/* The thread must not outlive the objects that it uses: the TLS library ends itself at exit, too. */
static void stop_at_exit(void)
{
    pthread_mutex_lock(&http.lock);
    bool join = http.started;
    http.stopping = true;
    if (join)
        ring();
    pthread_mutex_unlock(&http.lock);
    if (join)
        pthread_join(http.thread, NULL);
}

static void start_once(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
    pthread_atfork(before_fork, after_fork, in_child);
    atexit(stop_at_exit);
}

static size_t connections_wanted(void)
{
    struct rlimit files;
    uint64_t n = 0;
    size_t wanted = !leat_log_number("LEAT_HTTP_CONNECTIONS", &n) || !n ? CONNECTIONS
                    : n < MOST_CONNECTIONS                              ? (size_t)n
                                                                        : MOST_CONNECTIONS;
    if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur / 2 >= wanted)
        return wanted;
    return files.rlim_cur > 2 ? (size_t)files.rlim_cur / 2 : 1;
}

/* The needs of the thread; false if they are not met. */
static bool prepare(void)
{
    http.connections = connections_wanted();
    http.due_ns = INT64_MAX;
    http.bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    http.events = epoll_create1(EPOLL_CLOEXEC);
    http.idle = leat_new_array(http.connections, sizeof *http.idle);
    http.multi = curl_multi_init();
    struct epoll_event bell = {.events = EPOLLIN, .data.fd = http.bell};
    if (http.bell < 0 || http.events < 0 || !http.idle || !http.multi ||
        epoll_ctl(http.events, EPOLL_CTL_ADD, http.bell, &bell))
        return false;
    curl_multi_setopt(http.multi, CURLMOPT_MAXCONNECTS, (long)http.connections);
    curl_multi_setopt(http.multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(http.multi, CURLMOPT_TIMERFUNCTION, on_timer);
    return true;
}

/* Under the lock. */
static bool start(void)
{
    if (http.started || http.stopping)
        return http.started;
    http.started = prepare() && !leat_thread_start(&http.thread, talk, NULL);
    if (http.started)
        return true;
    curl_multi_cleanup(http.multi);
    leat_free(http.idle);
    if (http.bell >= 0)
        close(http.bell);
    if (http.events >= 0)
        close(http.events);
    return false;
}

/* Several at once, so that the thread is woken once. */
static void enqueue(struct leat_io_request *const *requests, size_t n, int *results, bool opening)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    bool queued = false;
    pthread_once(&once, start_once);
    for (size_t i = 0; i < n; i++) {
        struct leat_io_request *r = requests[i];
        struct transfer *t = NULL;
        results[i] = LEAT_OK;
        if ((!opening && !leat_io_fits(r)) || !r->length)
            continue;
        t = leat_new(struct transfer);
        pthread_mutex_lock(&http.lock);
        if (t && start()) {
            t->request = r;
            t->opening = opening;
            r->backend_state = t;
            struct server *server = server_of(r);
            *server->queue_end = t;
            server->queue_end = &t->next;
            results[i] = LEAT_IO_PENDING;
            queued = true;
            t = NULL;
        } else {
            r->status = leat_fail(&r->error, http.stopping ? LEAT_E_CLOSED : LEAT_E_NOMEM,
                                  http.stopping ? "the process is ending: nothing more is read"
                                                : "no memory or thread to read from %s",
                                  r->file->path);
        }
        pthread_mutex_unlock(&http.lock);
        leat_free(t);
    }
    if (queued)
        ring();
}

/* ---- the backend ---------------------------------------------------------------------------- */

static int http_submit(struct leat_io_file *file, struct leat_io_request *r)
{
    int result;
    enqueue(&r, 1, &result, false);
    return result;
}

static void http_submit_many(struct leat_io_request *const *requests, size_t n, int *results)
{
    enqueue(requests, n, results, false);
}

static void http_cancel(struct leat_io_request *r)
{
    pthread_mutex_lock(&http.lock);
    struct transfer *t = r->backend_state;
    if (t && !t->cancelled) {
        t->cancelled = http.cancelling = true;
        ring();
    }
    pthread_mutex_unlock(&http.lock);
}

static void http_close(struct leat_io_file *file)
{
    leat_free(file);
}

/* Opening asks for the first byte: that gives length, ETag and time in one answer, also if HEAD is not allowed. */
static int submit_opening(struct leat_io_file *file, struct leat_io_request *r)
{
    int result;
    enqueue(&r, 1, &result, true);
    return result;
}
static const struct leat_io_backend opening_backend = {
    .name = "http", .submit = submit_opening, .cancel = http_cancel, .close = http_close};

static struct server *find_server(const char *url)
{
    const char *host = strstr(url, "//") + 2; /* it has a scheme */
    size_t n = (size_t)(host - url) + strcspn(host, "/?#");
    pthread_mutex_lock(&http.lock);
    struct server *s = http.servers;
    while (s && (s->name_bytes != n || strncasecmp(s->name, url, n) != 0))
        s = s->next;
    if (!s && (s = leat_alloc(sizeof *s + n))) {
        *s = (struct server){.next = http.servers, .queue_end = &s->queue, .name_bytes = n};
        memcpy(s->name, url, n);
        http.servers = s;
    }
    pthread_mutex_unlock(&http.lock);
    return s;
}

/* Addresses are ASCII without spaces: any other byte of one is sent as %XX. */
static void escape(const char *path, char *to)
{
    static const char digits[] = "0123456789ABCDEF";
    for (; *path; path++) {
        const unsigned char c = (unsigned char)*path;
        const bool plain = c != ' ' && c < 0x80;
        *to++ = plain ? *path : '%';
        if (!plain) {
            *to++ = digits[c >> 4];
            *to++ = digits[c & 15];
        }
    }
    *to = 0;
}

static int http_open(const struct leat_io_backend *backend, const char *path, struct leat_io_file **out,
                     struct leat_error *error)
{
    size_t bytes = 3 * strlen(path) + 1;
    uint8_t first;
    struct server *server = find_server(path);
    struct http_file *f = leat_alloc(sizeof *f + bytes);
    *out = NULL;
    if (!f || !server) {
        leat_free(f);
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", path);
    }
    memset(f, 0, sizeof *f);
    f->server = server;
    escape(path, f->url);
    f->file = (struct leat_io_file){.backend = &opening_backend, .path = f->url, .references = 1};
    int rc = leat_io_read(&f->file, 0, 1, &first, error);
    if (rc) {
        leat_error_at_file(error, f->url, LEAT_NO_OFFSET);
        leat_free(f);
        return rc;
    }
    f->file.backend = backend;
    *out = &f->file;
    return LEAT_OK;
}

const struct leat_io_backend leat_io_http = {.name = "http",
                                             .open = http_open,
                                             .submit = http_submit,
                                             .submit_many = http_submit_many,
                                             .cancel = http_cancel,
                                             .close = http_close};
