/* Photos in the fast form that are verified: each is put together again, whatever checksums say. */
#include "../allocations.h"
#include "../codecs.h"
#include "kinds.h"

#include "codec/photo/photo.h"

enum { UNREAD = 64 }; /* bytes that a fast photo ends with */
static unsigned packed_photos, spoiled_photo;
static size_t (*spoiled_place)(const uint8_t *fast, size_t length, unsigned which);
static unsigned spoiled_which;
static int pack_and_spoil(struct leat_decoder *decoder, enum leat_photos form, bool lenient, const void *data,
                          size_t length, uint8_t **out, size_t *out_length, struct leat_error *error)
{
    int rc = leat_codec_photo.pack(decoder, form, false, data, length, out, out_length, error);
    if (!rc && packed_photos++ == spoiled_photo)
        (*out)[spoiled_place(*out, *out_length, spoiled_which)] ^= 0x10;
    return rc;
}

/* Where the file that comes back is made from: rows and skeleton. */
static size_t place_of_tenth(const uint8_t *fast, size_t length, unsigned which)
{
    return (length - UNREAD) * (5 + which) / 10;
}

/* In a table of quantisation, which only decoding takes from there: docs/format.md. */
static size_t place_in_table(const uint8_t *fast, size_t length, unsigned which)
{
    return 44 + 4 * (size_t)fast[37] + 126 / 4 * which;
}

struct verdict {
    unsigned faults;
    struct leat_error last;
};
static int note_fault(void *user, const struct leat_error *fault)
{
    struct verdict *verdict = user;
    verdict->faults++;
    verdict->last = *fault;
    return 0;
}

/* The checksums are those of what was written: only putting the photo together again tells. */
static void assert_found_wherever_spoiled(size_t (*place)(const uint8_t *fast, size_t length, unsigned which))
{
    struct leat_codec codec = leat_codec_photo;
    codec.pack = pack_and_spoil;
    struct leat_field field = {.name = "image", .kind = LEAT_KIND_IMAGE};
    struct leat_writer_options o = wish(LEAT_PHOTOS_FAST);
    struct leat_error error;
    struct leat_source *s;
    o.num_threads = 1;
    o.overwrite = true;
    codec_instead = &codec;
    spoiled_place = place;
    for (spoiled_photo = BASELINE; spoiled_photo <= TRAILED; spoiled_photo++)
        for (spoiled_which = 0; spoiled_which < 5; spoiled_which++) {
            struct leat_writer *w;
            struct verdict verdict = {0};
            struct leat_verify_options v = {
                .struct_size = sizeof v, .num_threads = 2, .report = note_fault, .user = &verdict};
            packed_photos = 0;
            assert_ok(leat_writer_open(path, &field, 1, &o, &w, &error));
            for (unsigned i = 0; i <= TRAILED; i++)
                assert_ok(
                    leat_writer_add(w, &(struct leat_value_ref){files[i].bytes, files[i].length, NULL}, NULL, &error));
            assert_ok(leat_writer_finish(w, &error));
            leat_writer_free(w, false);
            assert_int_equal(leat_verify(path, &v, &error), LEAT_E_CORRUPT);
            assert_int_equal(verdict.faults, 1);
            assert_int_equal(verdict.last.sample, spoiled_photo);
            assert_string_equal(verdict.last.field, "image");
            assert_string_equal(verdict.last.file, path);
            assert_non_null(strstr(verdict.last.message, "does not give back the file that it was made from"));
            assert_ok(leat_source_open(path, NULL, &s, &error));
            assert_int_equal(verdict.last.offset, extent_of(s, spoiled_photo).offset);
            leat_source_close(s);
        }
    codec_instead = NULL;
}

TEST_IN(verify_finds_a_fast_photo_that_does_not_give_back_what_came, make_folder, remove_folder)
{
    assert_found_wherever_spoiled(place_of_tenth);
}

TEST_IN(verify_finds_a_fast_photo_that_is_decoded_to_other_pixels_than_what_came, make_folder, remove_folder)
{
    assert_found_wherever_spoiled(place_in_table);
}

TEST_IN(a_fault_that_was_found_is_reported_where_memory_is_out_behind_it, make_folder, remove_folder)
{
    struct leat_writer_options o = wish(LEAT_PHOTOS_FAST);
    struct leat_error error;
    struct leat_source *s;
    pack(path, &o);
    assert_ok(leat_source_open(path, NULL, &s, &error));
    const off_t at = (off_t)extent_of(s, BASELINE).offset + 100;
    leat_source_close(s);
    const int fd = open(path, O_RDWR);
    uint8_t byte;
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
    bool reached = true, both = false;
    for (int n = 0; reached; n++) {
        struct verdict verdict = {0};
        struct leat_verify_options v = {
            .struct_size = sizeof v, .num_threads = 1, .report = note_fault, .user = &verdict};
        fail_allocation(n);
        const int rc = leat_verify(path, &v, &error);
        reached = allocation_failed();
        assert_int_equal(rc, reached ? LEAT_E_NOMEM : LEAT_E_CORRUPT);
        both |= reached && verdict.faults == 1;
        assert_true(verdict.faults == 1 ||
                    (reached && !verdict.faults)); /* what is damaged is not put together besides */
    }
    assert_true(both);
}

TEST_IN(without_memory_verifying_fails_and_reports_no_fault, make_folder, remove_folder)
{
    struct leat_writer_options o = wish(LEAT_PHOTOS_FAST);
    struct leat_error error;
    pack(path, &o);
    bool reached = true;
    for (int n = 0; reached; n++) {
        struct verdict verdict = {0};
        struct leat_verify_options v = {
            .struct_size = sizeof v, .num_threads = 1, .report = note_fault, .user = &verdict};
        fail_allocation(n);
        int rc = leat_verify(path, &v, &error);
        reached = allocation_failed();
        assert_int_equal(verdict.faults, 0);
        assert_int_equal(rc, reached ? LEAT_E_NOMEM : LEAT_OK);
    }
}

TEST_MAIN_IN(make_files, free_files)
