#include "port/message.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/transfer.h"
#include "io/file.h"
#include "io/interrupt.h"

static const char magic[4] = "leat";

int leat_message_send(int fd, enum leat_message_type type, uint32_t number, const void *body, size_t bytes,
                      const int *fds, size_t n_fds, struct leat_error *error)
{
    struct leat_message_head head = {.version = LEAT_PORT_VERSION, .type = (uint16_t)type, .number = number};
    if (bytes > LEAT_MESSAGE_MOST || n_fds > LEAT_MESSAGE_FDS)
        return leat_fail(error, LEAT_E_RANGE, "a message of %zu bytes is too long", bytes);
    memcpy(head.magic, magic, sizeof magic);
    head.bytes = (uint32_t)bytes;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(LEAT_MESSAGE_FDS * sizeof(int))];
    } control;
    struct iovec parts[2] = {{&head, sizeof head}, {(void *)(uintptr_t)body, bytes}};
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = bytes ? 2 : 1};
    if (n_fds) {
        memset(&control, 0, sizeof control);
        m.msg_control = control.bytes;
        m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        *c = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(n_fds * sizeof(int))};
        memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
    }
    ssize_t n;
    do
        n = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
        return leat_fail(error, LEAT_E_END, "the other side has ended the connection");
    return n >= 0 ? LEAT_OK : leat_fail_errno(error, LEAT_E_IO, "cannot send to the other side of a port");
}

int leat_message_fail(int fd, uint32_t number, const struct leat_error *why, struct leat_error *error)
{
    return leat_message_send(fd, LEAT_MESSAGE_FAILED, number, why, sizeof *why, NULL, 0, error);
}

void leat_message_close(struct leat_message *m)
{
    for (size_t i = 0; i < LEAT_MESSAGE_FDS; i++) {
        if (m->fds[i] >= 0)
            close(m->fds[i]);
        m->fds[i] = -1;
    }
}

/* Keeps the first descriptors that came, and closes the others. */
static bool keep_descriptors(struct msghdr *from, struct leat_message *m)
{
    size_t n = 0;
    bool whole = true;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(from); c; c = CMSG_NXTHDR(from, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (n < LEAT_MESSAGE_FDS) {
                m->fds[n++] = fd;
            } else {
                close(fd);
                whole = false;
            }
        }
    }
    return whole;
}

int leat_message_check(struct leat_message *m, size_t bytes, struct leat_error *error)
{
    const struct leat_message_head *head = &m->head;
    if (bytes < sizeof *head || memcmp(head->magic, magic, sizeof magic) != 0)
        return leat_fail(error, LEAT_E_FORMAT, "the other side of the socket is no port, or no consumer, of leat");
    if (head->version != LEAT_PORT_VERSION)
        return leat_fail(error, LEAT_E_UNSUPPORTED,
                         "the other side speaks version %u of ports, this library version %u: a port and those who "
                         "attach to it must be of one release of leat",
                         head->version, LEAT_PORT_VERSION);
    if (head->bytes > LEAT_MESSAGE_MOST || head->bytes != bytes - sizeof *head)
        return leat_fail(error, LEAT_E_FORMAT, "a message says that it has %u bytes, and has %zu", head->bytes,
                         bytes - sizeof *head);
    m->body[head->bytes] = 0;
    return LEAT_OK;
}

int leat_message_take(int fd, struct leat_message *m, struct leat_error *error)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(8 * sizeof(int))];
    } control;
    struct iovec parts[2] = {{&m->head, sizeof m->head}, {m->body, LEAT_MESSAGE_MOST}};
    struct msghdr to = {
        .msg_iov = parts, .msg_iovlen = 2, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    for (size_t i = 0; i < LEAT_MESSAGE_FDS; i++)
        m->fds[i] = -1;
    memset(&m->head, 0, sizeof m->head);
    ssize_t n;
    int resets = 0; /* one says that the other side did not read all; its message stands behind that */
    do
        n = recvmsg(fd, &to, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (n < 0 && (errno == EINTR || (errno == ECONNRESET && !resets++)));
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return LEAT_IO_PENDING;
    if (n == 0 || (n < 0 && errno == ECONNRESET))
        return leat_fail(error, LEAT_E_END, "the other side has ended the connection");
    if (n < 0)
        return leat_fail_errno(error, LEAT_E_IO, "cannot read from the other side of a port");
    const bool whole = keep_descriptors(&to, m);
    int rc = leat_message_check(m, (size_t)n, error);
    if (!rc && (to.msg_flags & MSG_CTRUNC || !whole))
        rc = leat_fail(error, LEAT_E_IO, "descriptors were lost on the way: this process may open no more (ulimit -n)");
    if (!rc && to.msg_flags & MSG_TRUNC)
        rc = leat_fail(error, LEAT_E_FORMAT, "a message is longer than messages are");
    if (rc)
        leat_message_close(m);
    return rc;
}

int leat_message_wait(int fd, int64_t timeout_ms, struct leat_message *out, struct leat_error *error)
{
    const int64_t end = timeout_ms < 0 ? INT64_MAX : leat_clock_ns() + timeout_ms * 1000000;
    for (;;) {
        int rc = leat_message_take(fd, out, error);
        if (rc != LEAT_IO_PENDING)
            return rc;
        const int64_t left = (end - leat_clock_ns()) / 1000000;
        if (left <= 0)
            return leat_fail(error, LEAT_E_TIMEOUT, "the other side does not answer");
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, left < 100 ? (int)left : 100) < 0 && errno != EINTR)
            return leat_fail_errno(error, LEAT_E_IO, "cannot wait for the other side of a port");
        if (leat_io_interrupted())
            return leat_fail(error, LEAT_E_CANCELLED, "interrupted");
    }
}

const void *leat_message_body(const struct leat_message *m, size_t bytes)
{
    return m->head.bytes == bytes ? m->body : NULL;
}

int leat_message_error(const struct leat_message *m, struct leat_error *error)
{
    struct leat_error said;
    if (m->head.bytes != sizeof said)
        return leat_fail(error, LEAT_E_FORMAT, "the port sent an error that is none");
    memcpy(&said, m->body, sizeof said);
    said.file[sizeof said.file - 1] = said.field[sizeof said.field - 1] = said.message[sizeof said.message - 1] = 0;
    if (said.code >= 0 || said.code < LEAT_E_OPERATOR)
        return leat_fail(error, LEAT_E_FORMAT, "the port sent an error that is none");
    if (error)
        *error = said;
    return said.code;
}

/* ---- long data ------------------------------------------------------------------------------- */

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

int leat_message_seal(const void *from, uint64_t bytes, int *fd, struct leat_error *error)
{
    *fd = memfd_create("leat-message", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd >= 0 && leat_write_at(*fd, from, bytes, 0) == bytes && !fcntl(*fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL))
        return LEAT_OK;
    int rc = leat_fail_errno(error, LEAT_E_IO, "cannot send %" PRIu64 " bytes to the other side of a port", bytes);
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    return rc;
}

int leat_message_sealed(int fd, uint64_t *bytes, struct leat_error *error)
{
    struct stat st;
    const int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) || st.st_size < 0)
        return leat_fail(error, LEAT_E_FORMAT, "the other side sends no sealed memory");
    *bytes = (uint64_t)st.st_size;
    return LEAT_OK;
}

int leat_message_unseal(int fd, void *to, uint64_t bytes, struct leat_error *error)
{
    uint64_t has = 0;
    int rc = leat_message_sealed(fd, &has, error);
    if (rc)
        return rc;
    if (has != bytes)
        return leat_fail(error, LEAT_E_FORMAT,
                         "the other side sends no sealed memory of %" PRIu64 " bytes, but of %" PRIu64, bytes, has);
    return leat_read_at(fd, to, bytes, 0) == bytes
               ? LEAT_OK
               : leat_fail_errno(error, LEAT_E_IO, "cannot read what the other side of a port has sent");
}
