/* The row indexes and checksums that a folder remembers of its photos: in memory, and in a file that several processes
 * share. What an index says is the decoder's business: here any bytes will do. */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "../allocations.h"
#include "../folder.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/random.h"
#include "format/folder_rows.h"
#include "format/rows_file.h"
#include "format/source.h"

enum { PHOTOS = 40, MOST = 4 << 20 };

static char photos[PATH_MAX + 16], indexes[PATH_MAX + 16];

static void write_photo(int i, const char *content)
{
    char name[64];
    snprintf(name, sizeof name, "photos/%c/%03d.jpg", 'a' + i % 3, i);
    files_write_text(folder, name, content);
}

static int set_up(void **state)
{
    files_folder(folder);
    snprintf(photos, sizeof photos, "%s/photos", folder);
    snprintf(indexes, sizeof indexes, "%s/some/where", folder);
    for (int i = 0; i < PHOTOS; i++)
        write_photo(i, "photo");
    return 0;
}

#define TEST_IN_FOLDER(name) TEST_IN(name, set_up, remove_folder)

static struct leat_source *open_with(const char *index_dir, enum leat_recheck recheck)
{
    struct leat_error error;
    struct leat_source *source;
    struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    options.index_dir = index_dir;
    options.recheck = recheck;
    assert_ok(leat_source_open(photos, &options, &source, &error));
    return source;
}

static struct leat_source *open_source(const char *index_dir)
{
    return open_with(index_dir, LEAT_RECHECK_FIRST);
}

/* The relative name of a photo, by which the tests know it: numbers change when photos come and go. */
static void name_of(struct leat_source *source, uint64_t sample, char name[64])
{
    struct leat_error error;
    struct leat_extent extent;
    struct leat_io_file *file;
    size_t failed;
    assert_ok(source->v->extents(source, source->n_fields - 1, &sample, 1, &extent, &failed, &error));
    assert_ok(source->v->file(source, extent.file, &file, &error));
    assert_ok(leat_io_read(file, extent.offset, extent.length, name, &error));
    name[extent.length] = 0;
    leat_io_release(file);
}

/* An index of known content. */
static size_t make_rows(struct leat_source *source, uint64_t sample, uint8_t *rows)
{
    char name[64];
    name_of(source, sample, name);
    uint64_t key = 0;
    for (const char *p = name; *p; p++)
        key = leat_key_mix(key, (uint8_t)*p);
    size_t n = 1 + leat_draw_below(key, 0, 300);
    for (size_t i = 0; i < n; i++)
        rows[i] = (uint8_t)leat_draw_u64(key, i + 1);
    return n;
}

static void keep(struct leat_source *source, uint64_t sample)
{
    uint8_t rows[512];
    size_t n = make_rows(source, sample, rows);
    source->v->keep(source, 0, sample, "photo", 5, rows, n);
}

static struct leat_extent extent_of(struct leat_source *source, uint64_t sample)
{
    struct leat_error error;
    struct leat_extent extent;
    size_t failed;
    assert_ok(source->v->extents(source, 0, &sample, 1, &extent, &failed, &error));
    assert_int_equal(extent.info.form, LEAT_FORM_ORIGINAL);
    return extent;
}

/* Whether the source has the index of a photo, wherever; if so, it is the right one. */
static bool has(struct leat_source *source, uint64_t sample)
{
    uint8_t want[512], got[512];
    const struct leat_extent extent = extent_of(source, sample);
    const uint8_t *rows = extent.info.rows;
    if (!extent.info.rows_length)
        return false;
    size_t n = make_rows(source, sample, want);
    if (extent.info.rows_apart) {
        assert_null(rows);
        assert_true(extent.info.rows_length <= sizeof got);
        if (!source->v->recall(source, 0, sample, got, extent.info.rows_length, NULL))
            return false;
        rows = got;
    }
    assert_int_equal(extent.info.rows_length, n);
    assert_memory_equal(rows, want, n);
    return true;
}

static uint64_t count(struct leat_source *source)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < source->count; i++)
        n += has(source, i);
    return n;
}

static void keep_all(struct leat_source *source)
{
    for (uint64_t i = 0; i < source->count; i++)
        keep(source, i);
}

/* Opens, keeps all, closes: the file then has all. */
static void fill(void)
{
    struct leat_source *source = open_source(indexes);
    keep_all(source);
    leat_source_close(source);
}

static uint64_t found(void)
{
    struct leat_source *source = open_source(indexes);
    uint64_t n = count(source);
    leat_source_close(source);
    return n;
}

/* The one file in the folder of indexes. */
static const char *index_file(void)
{
    static char path[PATH_MAX + 512];
    DIR *dir = opendir(indexes);
    assert_non_null(dir);
    *path = 0;
    for (struct dirent *e; (e = readdir(dir));)
        if (*e->d_name != '.') {
            assert_int_equal(*path, 0);
            snprintf(path, sizeof path, "%s/%s", indexes, e->d_name);
        }
    closedir(dir);
    return path;
}

static uint8_t *read_index(size_t *n)
{
    FILE *f = fopen(index_file(), "rb");
    assert_non_null(f);
    uint8_t *bytes = malloc(MOST);
    assert_non_null(bytes);
    *n = fread(bytes, 1, MOST, f);
    assert_true(*n < MOST);
    fclose(f);
    return bytes;
}

static void write_index(const char *path, const uint8_t *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static uint64_t index_size(void)
{
    struct stat st;
    assert_int_equal(stat(index_file(), &st), 0);
    return (uint64_t)st.st_size;
}

/* ---- in memory ------------------------------------------------------------------------------- */

TEST_IN_FOLDER(an_index_that_was_kept_comes_with_the_extent)
{
    struct leat_source *source = open_source(NULL);
    assert_int_equal(count(source), 0);
    keep(source, 3);
    keep(source, 39);
    assert_int_equal(count(source), 2);
    assert_true(has(source, 3) && has(source, 39));
    const uint8_t *first = extent_of(source, 3).info.rows;
    keep(source, 3);
    assert_ptr_equal(extent_of(source, 3).info.rows, first); /* whoever has it goes on reading it */
    leat_source_close(source);
    source = open_source(NULL);
    assert_int_equal(count(source), 0);
    leat_source_close(source);
}

TEST_IN_FOLDER(what_is_kept_in_memory_is_bounded)
{
    enum { EACH = LEAT_ROWS_LONGEST };
    uint8_t *large = malloc(EACH + 1);
    assert_non_null(large);
    memset(large, 7, EACH + 1);
    struct leat_source *source = open_source(NULL);
    source->v->keep(source, 0, 0, "photo", 5, large, EACH + 1);
    source->v->keep(source, 0, 0, "photo", 5, large, 0);
    assert_int_equal(extent_of(source, 0).info.rows_length, 0);
    uint64_t kept = 0;
    for (uint64_t i = 0; i < PHOTOS; i++) {
        source->v->keep(source, 0, i, "photo", 5, large, EACH);
        kept += extent_of(source, i).info.rows_length;
    }
    assert_true(kept <= LEAT_FOLDER_ROWS_BYTES && kept > LEAT_FOLDER_ROWS_BYTES - 2 * EACH);
    keep(source, PHOTOS - 1); /* what still has room is kept */
    assert_true(has(source, PHOTOS - 1));
    leat_source_close(source);
    free(large);
}

TEST_IN_FOLDER(what_memory_has_no_room_for_is_read_from_the_file)
{
    enum { MANY = 19 };
    uint8_t *large = malloc(LEAT_ROWS_LONGEST);
    assert_non_null(large);
    memset(large, 7, LEAT_ROWS_LONGEST);
    struct leat_listing listing;
    struct leat_folder_rows *rows;
    struct leat_error error;
    assert_ok(leat_listing_scan(photos, &listing, &error));
    for (size_t i = 0; i < listing.n_files; i++)
        listing.files[i].size = UINT64_C(1) << 30; /* so that the file may grow */
    for (int again = 0; again < 2; again++) {
        size_t apart = 0;
        assert_ok(leat_folder_rows_open(photos, indexes, false, &listing, &rows));
        for (uint64_t i = 0; i < MANY; i++) {
            struct leat_extent extent = {0};
            usleep(again ? 0 : 110000); /* a list that is too long is not written twice in a tenth of a second */
            large[0] = (uint8_t)i;
            leat_folder_rows_keep(rows, i, "photo", 5, large, LEAT_ROWS_LONGEST);
            leat_folder_rows_describe(rows, i, &extent.info);
            assert_int_equal(extent.info.rows_length, LEAT_ROWS_LONGEST);
            apart += extent.info.rows_apart;
            if (extent.info.rows_apart) {
                uint8_t *read = malloc(LEAT_ROWS_LONGEST);
                assert_non_null(read);
                assert_true(leat_folder_rows_recall(rows, i, read, LEAT_ROWS_LONGEST, NULL));
                assert_memory_equal(read, large, LEAT_ROWS_LONGEST);
                free(read);
            }
        }
        assert_int_equal(apart, again ? MANY : MANY - 15); /* 64 MiB hold 15 and the little that an allocation costs */
        leat_folder_rows_close(rows);
    }
    leat_listing_destroy(&listing);
    free(large);
}

static void *keep_and_look(void *arg)
{
    struct leat_source *source = arg;
    for (uint64_t i = 0; i < 20 * PHOTOS; i++) {
        uint64_t sample = leat_draw_below(5, i, PHOTOS);
        if (!has(source, sample))
            keep(source, sample);
        assert_true(has(source, sample));
    }
    return NULL;
}

TEST_IN_FOLDER(threads_find_and_read_at_once)
{
    for (int filed = 0; filed < 2; filed++) {
        struct leat_source *source = open_source(filed ? indexes : NULL);
        pthread_t threads[4];
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, keep_and_look, source), 0);
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
        leat_source_close(source);
    }
    assert_int_equal(found(), PHOTOS);
}

/* ---- in a file ------------------------------------------------------------------------------- */

TEST_IN_FOLDER(a_folder_opened_again_finds_its_indexes)
{
    struct stat st;
    struct leat_source *source = open_source(indexes);
    assert_int_equal(stat(indexes, &st), -1); /* made when there is something to write */
    for (uint64_t i = 0; i < 10; i++)
        keep(source, i);
    leat_source_close(source);
    source = open_source(indexes);
    assert_int_equal(count(source), 10);
    assert_true(extent_of(source, 4).info.rows_apart);
    assert_int_equal(extent_of(source, 4).info.health, LEAT_HEALTH_UNCHECKED); /* in this process */
    keep_all(source);
    assert_int_equal(count(source), PHOTOS);
    leat_source_close(source);
    uint64_t size = index_size();
    assert_int_equal(found(), PHOTOS);
    fill(); /* all is there: nothing is added */
    assert_int_equal(index_size(), size);
}

TEST_IN_FOLDER(each_folder_has_a_file_of_its_own)
{
    fill();
    char whole[sizeof photos];
    strcpy(whole, photos);
    snprintf(photos, sizeof photos, "%s/photos/a", folder); /* flat: the same photos under other names */
    assert_int_equal(found(), 0);
    strcpy(photos, whole);
    assert_int_equal(found(), PHOTOS);
}

TEST_IN_FOLDER(the_index_of_a_photo_that_changed_is_dropped)
{
    fill();
    write_photo(3, "longer than before");
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/a/006.jpg", photos);
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000000000, .tv_nsec = 1}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    struct leat_source *source = open_source(indexes);
    for (uint64_t i = 0; i < source->count; i++) {
        char name[64];
        name_of(source, i, name);
        assert_int_equal(has(source, i), strcmp(name, "a/003.jpg") && strcmp(name, "a/006.jpg"));
    }
    keep_all(source);
    leat_source_close(source);
    assert_int_equal(found(), PHOTOS);
}

TEST_IN_FOLDER(photos_are_found_by_name_where_others_came_and_went)
{
    char path[PATH_MAX + 64];
    fill();
    files_write_text(folder, "photos/a/000-new.jpg", "photo");
    files_write_text(folder, "photos/A/first.jpg", "photo");
    for (int i = 5; i < PHOTOS; i += 7) {
        snprintf(path, sizeof path, "%s/%c/%03d.jpg", photos, 'a' + i % 3, i);
        assert_int_equal(unlink(path), 0);
    }
    struct leat_source *source = open_source(indexes);
    assert_int_equal(source->count, PHOTOS - 5 + 2);
    assert_int_equal(count(source), PHOTOS - 5);
    leat_source_close(source);
}

/* Whatever stands in the file: what is found is right, and what is lost is found again. */
static void check_damaged(const uint8_t *bytes, size_t n)
{
    char path[PATH_MAX + 512];
    strcpy(path, index_file());
    write_index(path, bytes, n);
    assert_true(found() <= PHOTOS);
    struct leat_source *source = open_source(indexes);
    count(source); /* notices what is lost */
    keep_all(source);
    assert_int_equal(count(source), PHOTOS);
    leat_source_close(source);
    assert_int_equal(found(), PHOTOS);
}

TEST_IN_FOLDER(a_damaged_file_is_ignored_and_mended)
{
    size_t n;
    fill();
    uint8_t *bytes = read_index(&n);
    for (size_t i = 0; i < n; i += i < 400 ? 3 : 97) {
        bytes[i] ^= 0x10;
        check_damaged(bytes, n);
        bytes[i] ^= 0x10;
    }
    free(bytes);
}

TEST_IN_FOLDER(a_file_cut_anywhere_is_continued)
{
    size_t n;
    for (int half = 0; half < 2; half++) { /* two blocks */
        struct leat_source *source = open_source(indexes);
        for (uint64_t i = 0; i < source->count; i++)
            if ((int)i % 2 == half)
                keep(source, i);
        leat_source_close(source);
    }
    uint8_t *bytes = read_index(&n);
    for (size_t cut = 0; cut < n; cut += 61)
        check_damaged(bytes, cut);
    memset(bytes + n / 2, 0, n - n / 2); /* as after a loss of power */
    check_damaged(bytes, n);
    free(bytes);
}

TEST_IN_FOLDER(a_file_of_something_else_is_begun_anew)
{
    fill();
    char path[PATH_MAX + 512];
    strcpy(path, index_file());
    uint8_t *other = malloc(5000);
    assert_non_null(other);
    memset(other, 'x', 5000);
    check_damaged(other, 5000);
    check_damaged(other, 0);
    free(other);
}

TEST_IN_FOLDER(a_file_that_is_mostly_of_no_use_is_begun_anew)
{
    enum { EACH = 131400, SOME = 8 };
    uint8_t *rows = malloc(EACH);
    assert_non_null(rows);
    memset(rows, 1, EACH);
    for (int turn = 0; turn < 2; turn++) {
        struct leat_source *source = open_source(indexes);
        for (uint64_t i = 0; i < (turn ? 1 : SOME); i++)
            source->v->keep(source, 0, i, "photo", 5, rows, EACH);
        leat_source_close(source);
        if (!turn)
            assert_true(index_size() > EACH * SOME);
        for (int i = 0; i < PHOTOS; i++)
            write_photo(i, "changed");
    }
    assert_true(index_size() < 2 * EACH);
    free(rows);
}

TEST_IN_FOLDER(a_place_that_cannot_be_written_is_no_error)
{
    files_write_text(folder, "some", "a file where the folder would be");
    struct leat_source *source = open_source(indexes);
    keep_all(source);
    assert_int_equal(count(source), PHOTOS); /* in memory */
    leat_source_close(source);
    assert_int_equal(found(), 0);
}

TEST_IN_FOLDER(a_full_disk_loses_what_was_not_written_and_no_more)
{
    struct leat_source *source = open_source(indexes);
    for (uint64_t i = 0; i < 5; i++)
        keep(source, i);
    leat_source_close(source);
    uint64_t size = index_size();
    struct rlimit usual, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &usual), 0);
    small = usual;
    small.rlim_cur = size + 1000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    source = open_source(indexes);
    keep_all(source);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    leat_source_close(source);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &usual), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(index_size(), size);
    assert_int_equal(found(), 5);
    fill();
    assert_int_equal(found(), PHOTOS);
}

/* ---- checksums ------------------------------------------------------------------------------- */

/* Whether these bytes are remembered as good, and so is the index of the photo if it has one. */
static bool is_good(struct leat_source *source, uint64_t sample, const char *photo)
{
    uint8_t rows[512];
    const struct leat_extent extent = extent_of(source, sample);
    uint64_t checksum = leat_hash64(photo, strlen(photo));
    return extent.info.remembered &&
           source->v->recall(source, 0, sample, rows, extent.info.rows_apart ? extent.info.rows_length : 0, &checksum);
}

TEST_IN_FOLDER(the_bytes_with_which_a_photo_was_good_are_remembered)
{
    fill();
    struct leat_source *source = open_source(indexes);
    for (uint64_t i = 0; i < source->count; i++)
        assert_true(is_good(source, i, "photo"));
    assert_int_equal(count(source), PHOTOS);
    leat_source_close(source);
}

TEST_IN_FOLDER(of_other_bytes_nothing_is_known_until_they_are_kept)
{
    uint8_t rows[512];
    fill();
    struct leat_source *source = open_source(indexes);
    assert_false(is_good(source, 7, "PHOTO"));
    assert_false(is_good(source, 7, "photo")); /* it was taken for changed */
    assert_false(has(source, 7));
    assert_int_equal(count(source), PHOTOS - 1);
    source->v->keep(source, 0, 7, "PHOTO", 5, rows, make_rows(source, 7, rows));
    assert_true(is_good(source, 7, "PHOTO") && has(source, 7));
    leat_source_close(source);
    source = open_source(indexes);
    assert_int_equal(count(source), PHOTOS);
    assert_true(is_good(source, 7, "PHOTO")); /* what was written last holds */
    leat_source_close(source);
}

TEST_IN_FOLDER(a_photo_without_an_index_is_remembered_by_its_checksum)
{
    struct leat_source *source = open_source(indexes);
    for (uint64_t i = 0; i < source->count; i++)
        source->v->keep(source, 0, i, "photo", 5, NULL, 0);
    leat_source_close(source);
    source = open_source(indexes);
    for (uint64_t i = 0; i < source->count; i++) {
        assert_int_equal(extent_of(source, i).info.rows_length, 0);
        assert_true(is_good(source, i, "photo"));
    }
    assert_false(is_good(source, 2, "PHOTO"));
    assert_false(is_good(source, 2, "photo"));
    leat_source_close(source);
    assert_true(index_size() <= PHOTOS * LEAT_ROWS_RECORD + 200 + strlen(photos));
}

TEST_IN_FOLDER(in_memory_checksums_are_kept_for_photos_that_are_checked_again)
{
    for (int again = 0; again < 2; again++) {
        struct leat_source *source = open_with(NULL, again ? LEAT_RECHECK_ALWAYS : LEAT_RECHECK_FIRST);
        keep(source, 1);
        source->v->keep(source, 0, 2, "photo", 5, NULL, 0);
        assert_true(has(source, 1));
        for (uint64_t i = 1; i <= 2; i++) {
            assert_int_equal(is_good(source, i, "photo"), again);
            assert_false(is_good(source, i, "PHOTO"));
            assert_int_equal(is_good(source, i, "photo"), again); /* memory is not given up: others may be reading it */
        }
        leat_source_close(source);
    }
}

TEST_IN_FOLDER(a_file_of_another_version_is_begun_anew)
{
    size_t n;
    fill();
    uint8_t *bytes = read_index(&n);
    size_t header = 32 + (strlen(photos) + 7) / 8 * 8;
    leat_put_u32(bytes + 16, leat_get_u32(bytes + 16) - 1);
    leat_put_u64(bytes, leat_hash64(bytes + 8, header - 8));
    write_index(index_file(), bytes, n);
    assert_int_equal(found(), 0);
    fill();
    assert_int_equal(found(), PHOTOS);
    assert_int_equal(index_size(), n);
    free(bytes);
}

/* ---- several processes ----------------------------------------------------------------------- */

static void wait_for(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_IN_FOLDER(processes_write_at_once)
{
    enum { RANKS = 4, ROUNDS = 5 };
    fill();
    uint64_t size = index_size();
    for (int damaged = 0; damaged < 2; damaged++) { /* from nothing, and from a file that all find damaged */
        if (damaged)
            write_index(index_file(), (const uint8_t *)"leatrows", 8);
        else
            assert_int_equal(unlink(index_file()), 0);
        pid_t ranks[RANKS];
        for (uint64_t rank = 0; rank < RANKS; rank++) {
            ranks[rank] = fork();
            assert_true(ranks[rank] >= 0);
            if (ranks[rank])
                continue;
            for (uint64_t round = 0; round < ROUNDS; round++) { /* each photo is kept by two ranks */
                struct leat_source *source = open_source(indexes);
                for (uint64_t i = round; i < source->count; i += ROUNDS)
                    if (i % RANKS == rank || i % RANKS == (rank + 1) % RANKS)
                        keep(source, i);
                count(source); /* fails on a wrong one */
                leat_source_close(source);
            }
            _exit(0);
        }
        for (uint64_t rank = 0; rank < RANKS; rank++)
            wait_for(ranks[rank]);
        assert_int_equal(found(), PHOTOS);
        assert_true(index_size() < size + RANKS * ROUNDS * 48); /* more heads of blocks, but no index twice */
    }
}

TEST_IN_FOLDER(a_child_and_its_parent_both_write)
{
    struct leat_source *source = open_source(indexes);
    for (uint64_t i = 0; i < 10; i++)
        keep(source, i);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        for (uint64_t i = 10; i < 20; i++)
            keep(source, i);
        bool good = count(source) == 20;
        leat_source_close(source);
        _exit(good ? 0 : 1);
    }
    wait_for(child);
    for (uint64_t i = 20; i < 30; i++)
        keep(source, i);
    assert_int_equal(count(source), 20);
    leat_source_close(source);
    assert_int_equal(found(), 30);
}

TEST_IN_FOLDER(a_file_that_others_began_anew_is_read_as_it_is_now)
{
    fill();
    struct leat_source *source = open_source(indexes);
    write_index(index_file(), (const uint8_t *)"", 0);
    struct leat_source *other = open_source(indexes); /* finds nothing, and writes in another order */
    for (uint64_t i = PHOTOS; i-- > PHOTOS / 2;)
        keep(other, i);
    leat_source_close(other);
    count(source); /* no index is taken for another photo's; what is lost is noticed */
    keep_all(source);
    assert_int_equal(count(source), PHOTOS);
    leat_source_close(source);
    assert_int_equal(found(), PHOTOS);
}

/* ---- memory ---------------------------------------------------------------------------------- */

TEST_IN_FOLDER(any_allocation_may_fail)
{
    struct leat_listing listing;
    struct leat_error error;
    assert_ok(leat_listing_scan(photos, &listing, &error));
    bool done = false;
    for (int64_t n = 0; !done; n++) {
        struct leat_folder_rows *rows;
        if (n % 2) /* found at opening, or written */
            fill();
        else
            files_remove(indexes);
        fail_allocation(n);
        int rc = leat_folder_rows_open(photos, indexes, false, &listing, &rows);
        for (uint64_t i = 0; !rc && i < 3; i++)
            leat_folder_rows_keep(rows, i, "photo", 5, (const uint8_t *)"index", 5);
        leat_folder_rows_close(rows);
        done = !allocation_failed();
        assert_true(rc == LEAT_OK || rc == LEAT_E_NOMEM);
    }
    leat_listing_destroy(&listing);
}

TEST_MAIN()
