#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../test.h"
#include "io/file.h"

/* A server that says how long its file is, and from then on takes requests and answers none, but for those from byte
 * DRIPS on: it answers them a byte now and then. */
enum { FILE_BYTES = 3000, DRIPS = 1000 };
static int listener;
static char url[64];

static void *drip(void *socket)
{
    static const char answer[] = "HTTP/1.1 206 Partial Content\r\nContent-Length: 1500\r\nContent-Range: bytes "
                                 "1000-2499/3000\r\nETag: \"a\"\r\n\r\n";
    int s = *(int *)socket;
    ssize_t n = send(s, answer, sizeof answer - 1, MSG_NOSIGNAL);
    while (n > 0) {
        usleep(50000);
        n = send(s, "x", 1, MSG_NOSIGNAL);
    }
    close(s);
    return NULL;
}

static void *hang(void *unused)
{
    for (int first = 1;; first = 0) {
        char request[4096];
        int s = accept(listener, NULL, NULL);
        if (s < 0)
            return NULL;
        ssize_t n = recv(s, request, sizeof request - 1, 0);
        static const char answer[] = "HTTP/1.1 206 Partial Content\r\nContent-Length: 1\r\nContent-Range: bytes "
                                     "0-0/3000\r\nETag: \"a\"\r\nConnection: close\r\n\r\nx";
        request[n > 0 ? n : 0] = 0;
        static int dripping;
        pthread_t thread;
        if (strstr(request, "bytes=1000-")) {
            dripping = s;
            assert_int_equal(pthread_create(&thread, NULL, drip, &dripping), 0);
            pthread_detach(thread);
        }
        if (first || strstr(request, "bytes=0-0\r\n")) {
            assert_int_equal(send(s, answer, sizeof answer - 1, MSG_NOSIGNAL), sizeof answer - 1);
            close(s);
        }
    }
}

static int set_up(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    pthread_t thread;
    listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(listener, 64), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    snprintf(url, sizeof url, "http://127.0.0.1:%d/file", ntohs(address.sin_port));
    assert_int_equal(pthread_create(&thread, NULL, hang, NULL), 0);
    pthread_detach(thread);
    return 0;
}

struct waiting {
    pthread_mutex_t lock;
    pthread_cond_t came;
    int done;
};

static void on_done(struct leat_io_request *r, void *user)
{
    struct waiting *w = user;
    pthread_mutex_lock(&w->lock);
    w->done++;
    pthread_cond_signal(&w->came);
    pthread_mutex_unlock(&w->lock);
}

static void wait_for(struct waiting *w, int n)
{
    pthread_mutex_lock(&w->lock);
    while (w->done < n)
        pthread_cond_wait(&w->came, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

TEST(requests_that_hang_are_cancelled)
{
    enum { N = 2000 }; /* more than there are connections: some wait in the queue */
    static struct leat_io_request requests[N];
    static struct leat_io_request *list[N];
    static uint8_t buffer[N][8];
    static struct waiting w = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    int results[N];
    struct leat_error error;
    struct leat_io_file *file;
    assert_ok(leat_io_open(url, &file, &error));
    assert_int_equal(file->size, FILE_BYTES);
    for (size_t i = 0; i < N; i++) {
        requests[i] = (struct leat_io_request){
            .file = file, .offset = i, .length = 8, .buffer = buffer[i], .done = on_done, .user = &w};
        list[i] = &requests[i];
    }
    leat_io_submit_many(list, N, results);
    usleep(20000);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(results[i], LEAT_IO_PENDING);
        leat_io_cancel(&requests[i]);
    }
    wait_for(&w, N);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(requests[i].status, LEAT_E_CANCELLED);
    leat_io_release(file);
}

TEST(a_server_that_answers_nothing_or_a_drop_at_a_time_is_an_error_that_trying_again_may_help)
{
    struct waiting w = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    struct leat_error error;
    struct leat_io_file *file;
    uint8_t buffer[1500];
    assert_ok(leat_io_open(url, &file, &error));
    const long usual = test_stall_s;
    test_stall_s = 1;
    for (int dripping = 0; dripping < 2; dripping++) {
        struct leat_io_request r = {.file = file,
                                    .offset = dripping ? DRIPS : 0,
                                    .length = dripping ? sizeof buffer : 8,
                                    .buffer = buffer,
                                    .done = on_done,
                                    .user = &w};
        assert_int_equal(leat_io_submit(&r), LEAT_IO_PENDING);
        wait_for(&w, 1 + dripping);
        assert_int_equal(r.status, LEAT_E_IO);
        assert_true(r.retry_after_ms > 0);
        assert_non_null(strstr(r.error.message, "does not answer"));
        assert_string_equal(r.error.file, url);
    }
    test_stall_s = usual;
    leat_io_release(file);
}

TEST(a_range_outside_the_file_is_never_asked_for)
{
    struct leat_error error;
    struct leat_io_file *file;
    uint8_t buffer[8];
    assert_ok(leat_io_open(url, &file, &error));
    assert_int_equal(leat_io_read(file, FILE_BYTES - 4, 8, buffer, &error), LEAT_E_CORRUPT);
    assert_int_equal(leat_io_read(file, UINT64_MAX, 8, buffer, &error), LEAT_E_CORRUPT);
    assert_int_equal(leat_io_read(file, FILE_BYTES, 0, buffer, &error), LEAT_OK);
    assert_null(leat_io_map(file, &error));
    leat_io_release(file);
}

TEST_MAIN_IN(set_up, NULL)
