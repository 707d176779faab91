/* Residues of a file of sequences as a file of their own: out of a mapping, and by reads that complete later, fail or
 * are cancelled. */
#include <pthread.h>
#include <sys/wait.h>

#include "../faulty.h"
#include "../folder.h"
#include "base/random.h"
#include "format/residues.h"
#include "kernels/residues.h"

enum { READS = 200, MOST = 9000, TEXT = 1 << 20 };

static char path[PATH_MAX + 16];
static uint8_t text[TEXT], plain[TEXT], got[READS][MOST];
static size_t n_text, n_plain;
static struct leat_sequence_index index_of;
static struct leat_io_request requests[READS];

static struct {
    pthread_mutex_t lock;
    pthread_cond_t came;
    size_t done;
} waiting = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};

/* Records of all lengths, most of them folded evenly. */
static void make_text(void)
{
    for (uint64_t k = 0; n_text < TEXT - 40000; k++) {
        const uint64_t n = leat_draw_below(1, 3 * k, k % 5 ? 400 : 20000), line = 1 + leat_draw_below(1, 3 * k + 1, 90);
        n_text += (size_t)sprintf((char *)text + n_text, ">r%d some words\n", (int)k);
        for (uint64_t i = 0; i < n; i++) {
            plain[n_plain] = text[n_text++] = (uint8_t) "ACGTacgtN"[leat_draw_below(2, n_plain, 9)];
            n_plain++;
            const bool breaks = (i + 1) % line == 0 || (k % 7 == 3 && leat_draw_below(3, n_plain, 100) == 0);
            if (breaks)
                text[n_text++] = '\n';
        }
        text[n_text++] = '\n';
    }
}

static int set_up(void **state)
{
    struct leat_sequence_scan *s;
    files_folder(folder);
    make_text();
    files_write(folder, "a.fa", text, n_text);
    snprintf(path, sizeof path, "%s/a.fa", folder);
    assert_int_equal(leat_sequence_scan_begin(path, LEAT_SEQUENCE_FASTA, &s, NULL), LEAT_OK);
    assert_int_equal(leat_sequence_scan_push(s, text, n_text, NULL), LEAT_OK);
    assert_int_equal(leat_sequence_scan_end(s, true, &index_of, NULL), LEAT_OK);
    assert_int_equal(index_of.records[index_of.count].first, n_plain);
    assert_true(index_of.n_points[0] > 0);
    return 0;
}

static int tear_down(void **state)
{
    leat_sequence_index_destroy(&index_of);
    files_remove(folder);
    return 0;
}

static struct leat_io_file *open_residues(void)
{
    struct leat_io_file *from, *file;
    assert_int_equal(leat_io_open(path, &from, NULL), LEAT_OK);
    assert_int_equal(leat_residues_open(path, &index_of, LEAT_RESIDUES, from, &file, NULL), LEAT_OK);
    leat_io_release(from);
    assert_int_equal(file->size, n_plain);
    return file;
}

static void on_done(struct leat_io_request *r, void *user)
{
    pthread_mutex_lock(&waiting.lock);
    waiting.done++;
    pthread_cond_signal(&waiting.came);
    pthread_mutex_unlock(&waiting.lock);
}

static void submit(struct leat_io_file *file, size_t i)
{
    const uint64_t length = leat_draw_below(4, 2 * i, MOST), at = leat_draw_below(4, 2 * i + 1, n_plain - MOST);
    requests[i] =
        (struct leat_io_request){.file = file, .offset = at, .length = length, .buffer = got[i], .done = on_done};
    if (leat_io_submit(&requests[i]) == LEAT_OK)
        on_done(&requests[i], NULL);
}

static void wait_for(size_t n)
{
    pthread_mutex_lock(&waiting.lock);
    while (waiting.done < n)
        pthread_cond_wait(&waiting.came, &waiting.lock);
    waiting.done -= n;
    pthread_mutex_unlock(&waiting.lock);
}

static void assert_good(size_t i)
{
    assert_int_equal(requests[i].status, LEAT_OK);
    assert_memory_equal(got[i], plain + requests[i].offset, requests[i].length);
}

TEST(any_range_is_read_mapped_and_not)
{
    for (int unmapped = 0; unmapped < 2; unmapped++) {
        leat_faulty_start(&(struct leat_faulty){.unmapped = unmapped});
        struct leat_io_file *file = open_residues();
        for (size_t i = 0; i < READS; i++)
            submit(file, i);
        wait_for(READS);
        for (size_t i = 0; i < READS; i++)
            assert_good(i);
        assert_int_equal(leat_io_read(file, n_plain, 0, got[0], NULL), LEAT_OK);
        assert_int_equal(leat_io_read(file, n_plain, 1, got[0], NULL), LEAT_E_CORRUPT);
        leat_io_release(file);
        leat_faulty_stop();
    }
}

TEST(reads_that_complete_later_are_answered_then)
{
    leat_faulty_start(&(struct leat_faulty){.unmapped = true, .later = true});
    struct leat_io_file *file = open_residues();
    for (size_t i = 0; i < READS; i++)
        submit(file, i);
    wait_for(READS);
    for (size_t i = 0; i < READS; i++)
        assert_good(i);
    leat_io_release(file);
    leat_faulty_stop();
}

TEST(a_read_that_is_cancelled_ends_and_others_go_on)
{
    uint64_t bytes;
    leat_faulty_start(&(struct leat_faulty){.unmapped = true, .later = true});
    struct leat_io_file *file = open_residues();
    leat_faulty_hold(1000);
    for (size_t i = 0; i < 20; i++)
        submit(file, i);
    while (leat_faulty_held(&bytes) < 20)
        usleep(1000);
    for (size_t i = 0; i < 20; i += 2)
        leat_io_cancel(&requests[i]);
    wait_for(10);
    leat_faulty_hold(0);
    leat_faulty_release(100);
    wait_for(10);
    for (size_t i = 0; i < 20; i++)
        if (i % 2)
            assert_good(i);
        else
            assert_int_equal(requests[i].status, LEAT_E_CANCELLED);
    leat_io_release(file);
    leat_faulty_stop();
}

TEST(a_read_that_fails_says_so_and_the_next_one_is_good)
{
    leat_faulty_start(&(struct leat_faulty){.unmapped = true, .fail_read = 1, .retry_after_ms = 7});
    struct leat_io_file *file = open_residues();
    submit(file, 0);
    submit(file, 1);
    wait_for(2);
    assert_int_equal(requests[0].status, LEAT_E_IO);
    assert_int_equal(requests[0].retry_after_ms, 7);
    assert_string_equal(requests[0].error.file, path);
    assert_good(1);
    leat_io_release(file);
    leat_faulty_stop();
}

TEST(a_file_that_is_cut_is_an_error_mapped_and_not)
{
    struct leat_error error;
    for (int unmapped = 0; unmapped < 2; unmapped++) {
        leat_faulty_start(&(struct leat_faulty){.unmapped = unmapped, .cut = true, .cut_at = 8192});
        struct leat_io_file *file = open_residues();
        assert_int_equal(leat_io_read(file, 0, 100, got[0], &error), LEAT_OK);
        const int rc = leat_io_read(file, n_plain / 2, 100, got[0], &error);
        assert_true(rc == LEAT_E_IO || rc == LEAT_E_CORRUPT);
        assert_string_equal(error.file, path);
        leat_io_release(file);
        leat_faulty_stop();
    }
}

TEST(a_forked_child_reads_on)
{
    for (int unmapped = 0; unmapped < 2; unmapped++) {
        leat_faulty_start(&(struct leat_faulty){.unmapped = unmapped});
        struct leat_io_file *file = open_residues();
        assert_int_equal(leat_io_read(file, 5, 100, got[0], NULL), LEAT_OK);
        const pid_t child = fork();
        if (!child)
            _exit(leat_io_read(file, 7, MOST, got[0], NULL) || memcmp(got[0], plain + 7, MOST) ? 1 : 0);
        int status;
        waitpid(child, &status, 0);
        assert_int_equal(status, 0);
        leat_io_release(file);
        leat_faulty_stop();
    }
}

/* The kernels of all instruction sets: lines of each length, and one wrong byte anywhere. */
TEST(lines_are_copied_alike_by_all_instruction_sets)
{
    static uint8_t from[600], expected[600], to[2][600];
    for (size_t line = 1; line < 140; line += 1 + line / 20)
        for (size_t between = 1; between < 4; between++)
            for (size_t left = 1; left <= line; left += 1 + line / 3) {
                const size_t n = 130 + line;
                size_t at = 0, room = left;
                for (size_t i = 0; i < n; i++) {
                    if (!room) {
                        memset(from + at, "\n\r\t "[i % 4], between);
                        at += between;
                        room = line;
                    }
                    expected[i] = from[at++] = (uint8_t)('!' + i % 94);
                    room--;
                }
                assert_true(at <= sizeof from);
                assert_true(leat_residues_copy_portable(to[0], from, n, left, line, between, 0));
                assert_true(leat_residues_copy_avx2(to[1], from, n, left, line, between, 0));
                assert_memory_equal(to[0], expected, n);
                assert_memory_equal(to[1], expected, n);
                assert_false(leat_residues_copy_portable(to[0], from, n, left, line, between, expected[left]));
                assert_false(leat_residues_copy_avx2(to[1], from, n, left, line, between, expected[left]));
                for (size_t i = 0; i < at; i++) {
                    static const uint8_t wrong[] = {0, ' ', 0x7f, 0x80, 0xff, '\n'};
                    const uint8_t kept = from[i];
                    from[i] = leat_is_residue(kept) ? wrong[i % 6] : 'A';
                    assert_false(leat_residues_copy_portable(to[0], from, n, left, line, between, 0));
                    assert_false(leat_residues_copy_avx2(to[1], from, n, left, line, between, 0));
                    from[i] = kept;
                }
            }
}

TEST_MAIN_IN(set_up, tear_down)
