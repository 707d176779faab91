/*
 * Opening a leat file: header, footer, directory and sections are read into memory and checked; the rest is not
 * touched. Groups and sections must fill the file without gaps, so that each byte belongs to something with a checksum,
 * and no number can point outside.
 *
 * Memory is bounded by the size of the file: every array below is as long as something in it.
 */
#include "store/reader.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "format/json_text.h"
#include "io/blocks.h"
#include "store/text.h"

/* Columns of less than this are mapped from the first value on; larger ones once a sixteenth of the values were read,
 * or so many that reading them took a tenth of a second. */
#define COLD_COLUMNS (UINT64_C(16) << 20)
#define COLD_VALUES (UINT64_C(128) << 10)

/* Blocks of a file on a network: long enough that index and small columns take few requests, short enough for one. */
#define REMOTE_BLOCK (UINT64_C(512) << 10)
/* ... and if payloads lie between: from a file that the cache does not hold, only bytes of columns are wanted. */
#define REMOTE_COLUMNS (UINT64_C(64) << 10)

static int corrupt(struct leat_error *error, uint64_t offset, const char *what)
{
    leat_fail(error, LEAT_E_CORRUPT, "%s: restore the file or pack it again", what);
    leat_error_at_file(error, NULL, (int64_t)offset);
    return LEAT_E_CORRUPT;
}

static int no_memory(struct leat_error *error, uint64_t bytes)
{
    return leat_fail(error, LEAT_E_NOMEM, "no memory for %" PRIu64 " bytes of the file's index", bytes);
}

/* Reads [offset, offset + length) into new memory and checks it. */
static int read_checked(struct leat_store_source *s, uint64_t offset, uint64_t length, uint64_t checksum,
                        const char *what, void **out, struct leat_error *error)
{
    *out = leat_alloc(length + 1);
    if (!*out)
        return no_memory(error, length);
    int rc = leat_io_read(s->pages, offset, length, *out, error);
    if (!rc && leat_hash64(*out, length) != checksum) {
        leat_fail(error, LEAT_E_CORRUPT, "%s fails its checksum: restore the file or pack it again", what);
        leat_error_at_file(error, NULL, (int64_t)offset);
        rc = LEAT_E_CORRUPT;
    }
    if (rc) {
        leat_free(*out);
        *out = NULL;
        return rc;
    }
    ((char *)*out)[length] = 0;
    return LEAT_OK;
}

/* ---- the header ------------------------------------------------------------------------------ */

static bool named_leat(const char *path)
{
    size_t n = strlen(path);
    return n > 5 && !strcmp(path + n - 5, ".leat");
}

/* Whether the file ends as a file of this version does. */
static bool ends_as_leat(struct leat_io_file *file)
{
    uint8_t bytes[LEAT_STORE_FOOTER];
    struct leat_store_footer footer;
    return file->size >= sizeof bytes && !leat_io_read(file, file->size - sizeof bytes, sizeof bytes, bytes, NULL) &&
           !leat_store_footer_get(bytes, &footer, NULL) && footer.file_bytes == file->size;
}

/* A header of another format or version is a damaged one if the end of the file, or its name, says that it is leat's.
 * Then the file must be restored; another program or a newer leat would not help. */
static bool header_is_damaged(struct leat_store_source *s, const uint8_t fixed[LEAT_STORE_HEADER_FIXED])
{
    if (memcmp(fixed, LEAT_STORE_MAGIC, 8))
        return named_leat(s->path) || ends_as_leat(s->pages);
    uint64_t bytes = leat_get_u64(fixed + 16);
    if (!ends_as_leat(s->pages))
        return false;
    uint8_t *header = bytes >= LEAT_STORE_HEADER_FIXED && bytes <= leat_store_header_bytes(LEAT_STORE_MAX_FIELDS) &&
                              bytes <= s->file->size
                          ? leat_alloc(bytes)
                          : NULL;
    bool whole = header && !leat_io_read(s->pages, 0, bytes, header, NULL) &&
                 leat_hash64(header, bytes - 8) == leat_store_header_checksum(header, bytes);
    leat_free(header);
    return !whole;
}

static int read_header(struct leat_store_source *s, struct leat_error *error)
{
    uint8_t fixed[LEAT_STORE_HEADER_FIXED], *header = NULL;
    uint64_t bytes = 0;
    if (s->file->size < LEAT_STORE_HEADER_FIXED)
        return leat_fail(error, LEAT_E_CORRUPT,
                         "the file is too short for a leat file (%" PRIu64 " bytes): copy it again", s->file->size);
    int rc = leat_io_read(s->pages, 0, sizeof fixed, fixed, error);
    if (!rc)
        rc = leat_store_header_length(fixed, &bytes, error);
    if (rc == LEAT_E_FORMAT && header_is_damaged(s, fixed))
        rc = corrupt(error, 0,
                     "the first bytes are not those of a leat file, though its name or its end is: they are damaged");
    if (rc)
        return rc;
    if (bytes > s->file->size)
        return corrupt(error, s->file->size, "the file ends in its header");
    header = leat_alloc(bytes);
    if (!header)
        return no_memory(error, bytes);
    rc = leat_io_read(s->pages, 0, bytes, header, error);
    if (!rc)
        rc = leat_store_header_get(header, bytes, &s->layout, &s->identity, error);
    s->header_bytes = bytes;
    leat_free(header);
    return rc;
}

/* ---- sections -------------------------------------------------------------------------------- */

static int read_footer(struct leat_store_source *s, struct leat_store_footer *footer, struct leat_error *error)
{
    uint8_t bytes[LEAT_STORE_FOOTER], last[8];
    uint64_t size = s->file->size;
    if (size < s->header_bytes + LEAT_STORE_FOOTER)
        return leat_fail(
            error, LEAT_E_UNFINISHED,
            "the file has no end: it was cut, or never finished. Copy it again, or pack again with resume");
    int rc = leat_io_read(s->pages, size - sizeof bytes, sizeof bytes, bytes, error);
    if (!rc)
        rc = leat_store_footer_get(bytes, footer, error);
    if (!rc)
        rc = leat_io_read(s->pages, s->header_bytes - 8, 8, last, error);
    if (rc)
        return rc;
    s->footer_checksum = leat_get_u64(bytes + LEAT_STORE_FOOTER - 8);
    if (footer->file_bytes != size)
        return corrupt(error, size, "the file is longer or shorter than when it was written");
    if (footer->header_checksum != leat_get_u64(last))
        return corrupt(error, 0, "header and footer are not of one file");
    uint64_t room = size - LEAT_STORE_FOOTER;
    if (footer->directory_at < s->header_bytes || footer->directory_at > room ||
        footer->directory_bytes > room - footer->directory_at || footer->directory_at % LEAT_STORE_ALIGN ||
        footer->directory_bytes % LEAT_STORE_SECTION_ENTRY || footer->directory_bytes == 0 ||
        leat_store_align(footer->directory_at + footer->directory_bytes, LEAT_STORE_ALIGN) != room)
        return corrupt(error, size - LEAT_STORE_FOOTER, "the footer points to an impossible place");
    s->directory_at = footer->directory_at;
    return LEAT_OK;
}

/* Sections follow each other, each at the next multiple of its alignment, up to the directory. */
static int read_directory(struct leat_store_source *s, const struct leat_store_footer *footer, struct leat_error *error)
{
    void *bytes;
    int rc = read_checked(s, footer->directory_at, footer->directory_bytes, footer->directory_checksum,
                          "the section directory", &bytes, error);
    if (rc)
        return rc;
    uint64_t n = footer->directory_bytes / LEAT_STORE_SECTION_ENTRY, end = 0;
    s->sections = leat_new_array(n, sizeof *s->sections);
    if (!s->sections || n > UINT32_MAX) {
        leat_free(bytes);
        return no_memory(error, footer->directory_bytes);
    }
    s->n_sections = (uint32_t)n;
    for (uint64_t i = 0; i < n && !rc; i++) {
        struct leat_store_section *x = &s->sections[i];
        const uint8_t *entry = (const uint8_t *)bytes + i * LEAT_STORE_SECTION_ENTRY;
        leat_store_section_get(entry, x);
        bool known = x->type >= LEAT_SECTION_CLASSES && x->type <= LEAT_SECTION_SUMMARY;
        if (x->align_log2 < 6 || x->align_log2 > 16 || x->offset > footer->directory_at ||
            x->length > footer->directory_at - x->offset || x->offset < s->header_bytes ||
            x->offset % (UINT64_C(1) << x->align_log2) || leat_get_u64(entry + 32))
            rc = corrupt(error, footer->directory_at + i * LEAT_STORE_SECTION_ENTRY,
                         "the section directory holds impossible numbers");
        else if (i && x->offset != leat_store_align(end, UINT64_C(1) << x->align_log2))
            rc = corrupt(error, x->offset, "the sections do not follow each other");
        else if ((!known || x->codec) && x->flags & LEAT_SECTION_REQUIRED)
            rc = leat_fail(error, LEAT_E_FORMAT,
                           "the file has a section of type %u, codec %u, that this leat cannot read and must not "
                           "ignore: use a newer leat",
                           x->type, x->codec);
        end = x->offset + x->length;
    }
    s->sections_at = s->sections[0].offset;
    if (!rc && leat_store_align(end, LEAT_STORE_ALIGN) != footer->directory_at)
        rc = corrupt(error, end, "there are bytes between the last section and the directory");
    leat_free(bytes);
    return rc;
}

/* *found: the section, NULL if there is none that can be read. */
static int find_section(const struct leat_store_source *s, uint32_t type, const struct leat_store_section **found,
                        struct leat_error *error)
{
    *found = NULL;
    for (uint32_t i = 0; i < s->n_sections; i++) {
        if (s->sections[i].type != type)
            continue;
        if (*found)
            return corrupt(error, s->directory_at, "a section stands twice in the directory");
        *found = &s->sections[i];
    }
    *found = *found && !(*found)->codec ? *found : NULL;
    return LEAT_OK;
}

static int read_section(struct leat_store_source *s, uint32_t type, const char *what, void **out, uint64_t *length,
                        struct leat_error *error)
{
    const struct leat_store_section *found;
    int rc = find_section(s, type, &found, error);
    if (rc)
        return rc;
    if (!found) {
        leat_fail(error, LEAT_E_CORRUPT, "%s is missing: restore the file or pack it again", what);
        return LEAT_E_CORRUPT;
    }
    *length = found->length;
    return read_checked(s, found->offset, found->length, found->checksum, what, out, error);
}

static int read_classes(struct leat_store_source *s, struct leat_error *error)
{
    void *bytes;
    uint64_t length, at = 4;
    int rc = read_section(s, LEAT_SECTION_CLASSES, "the list of classes", &bytes, &length, error);
    if (rc)
        return rc;
    s->classes_bytes = bytes;
    uint64_t n = length >= 4 ? leat_get_u32(bytes) : UINT64_MAX;
    if (n > length / 5) /* a length and a NUL each */
        return corrupt(error, s->sections_at, "the list of classes is impossible");
    s->classes = leat_new_array(n, sizeof *s->classes);
    if (!s->classes)
        return no_memory(error, n * sizeof *s->classes);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t bytes_left = length - at, name = bytes_left >= 5 ? leat_get_u32(s->classes_bytes + at) : UINT64_MAX;
        const char *text = (const char *)s->classes_bytes + at + 4;
        if (name > bytes_left - 5 || bytes_left < 5 || text[name] || memchr(text, 0, name) ||
            leat_utf8_check(text, name) != name)
            return corrupt(error, s->sections_at, "the list of classes is impossible");
        s->classes[i] = text;
        at += 5 + name;
    }
    if (at != length)
        return corrupt(error, s->sections_at, "the list of classes is impossible");
    s->base.classes = s->classes;
    s->base.n_classes = n;
    return LEAT_OK;
}

static int read_metadata(struct leat_store_source *s, struct leat_error *error)
{
    void *bytes;
    uint64_t length;
    int rc = read_section(s, LEAT_SECTION_METADATA, "the metadata", &bytes, &length, error);
    if (rc)
        return rc;
    s->metadata = bytes;
    s->base.metadata = s->metadata;
    if (leat_json_check(bytes, length) != length || !length || memchr(bytes, 0, length))
        return corrupt(error, s->sections_at, "the metadata is not JSON");
    return LEAT_OK;
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Groups follow each other from the header to the first section, and so do their rows. */
static int check_groups(struct leat_store_source *s, struct leat_error *error)
{
    uint64_t at = s->header_bytes, row = 0;
    for (uint64_t g = 0; g < s->n_groups; g++) {
        const struct leat_store_entry *e = &s->groups[g];
        struct leat_store_shape shape;
        if (e->offset != at || e->first_row != row || e->zero ||
            !leat_store_group_shape(&s->layout, e->n_rows, e->payload_bytes, e->directory_bytes, &shape) ||
            shape.bytes > s->sections_at - at)
            return corrupt(error, at, "the index of groups holds impossible numbers");
        s->first_rows[g] = row;
        s->columns_at[g] = at + shape.columns_at;
        at += shape.bytes;
        row += e->n_rows;
    }
    s->first_rows[s->n_groups] = row;
    if (leat_store_align(at, UINT64_C(1) << s->sections[0].align_log2) != s->sections_at || row != s->summary.count)
        return corrupt(error, at, "the groups do not fill the file");
    return LEAT_OK;
}

/* One or two hints per group. */
static int make_hints(struct leat_store_source *s, struct leat_error *error)
{
    uint64_t count = s->summary.count, n;
    while ((count >> s->hint_shift) > 2 * s->n_groups)
        s->hint_shift++;
    n = (count >> s->hint_shift) + 2;
    s->hints = leat_new_array(n, sizeof *s->hints);
    if (!s->hints)
        return no_memory(error, n * sizeof *s->hints);
    uint64_t g = 0;
    for (uint64_t i = 0; i < n; i++) {
        while (g + 1 < s->n_groups && s->first_rows[g + 1] <= i << s->hint_shift)
            g++;
        s->hints[i] = (uint32_t)g;
    }
    return LEAT_OK;
}

static int read_groups(struct leat_store_source *s, struct leat_error *error)
{
    void *bytes;
    uint64_t length;
    int rc = read_section(s, LEAT_SECTION_SUMMARY, "the summary", &bytes, &length, error);
    if (rc)
        return rc;
    if (length == LEAT_STORE_SUMMARY)
        leat_store_summary_get(bytes, &s->summary);
    leat_free(bytes);
    if (length != LEAT_STORE_SUMMARY || s->summary.count > INT64_MAX)
        return corrupt(error, s->sections_at, "the summary is impossible");
    if ((rc = read_section(s, LEAT_SECTION_GROUPS, "the index of groups", &bytes, &length, error)))
        return rc;
    s->groups = bytes;
    s->n_groups = length / LEAT_STORE_GROUP_ENTRY;
    if (length % LEAT_STORE_GROUP_ENTRY || s->n_groups > UINT32_MAX)
        return corrupt(error, s->sections_at, "the index of groups is impossible");
    s->first_rows = leat_new_array(s->n_groups + 1, sizeof *s->first_rows);
    s->columns_at = leat_new_array(s->n_groups + 1, sizeof *s->columns_at);
    if (!s->first_rows || !s->columns_at)
        return no_memory(error, length);
    if ((rc = check_groups(s, error)))
        return rc;
    return make_hints(s, error);
}

static bool has_section(const struct leat_store_source *s, uint32_t type, uint64_t length)
{
    bool there = false;
    for (uint32_t i = 0; i < s->n_sections; i++)
        there |= s->sections[i].type == type && !s->sections[i].codec && s->sections[i].length == length;
    return there;
}

static int read_roles(struct leat_store_source *s, struct leat_error *error)
{
    void *bytes;
    uint64_t length;
    if (!has_section(s, LEAT_SECTION_ROLES, s->layout.n_stored))
        return LEAT_OK;
    int rc = read_section(s, LEAT_SECTION_ROLES, "the roles of fields", &bytes, &length, error);
    if (rc)
        return rc;
    bool good = leat_store_roles_get(&s->layout, bytes);
    leat_free(bytes);
    return good ? LEAT_OK : corrupt(error, s->sections_at, "the roles of fields are impossible");
}

static int read_pairs(struct leat_store_source *s, struct leat_error *error)
{
    const struct leat_store_section *found;
    void *bytes;
    uint64_t length;
    bool memory = true;
    int rc = find_section(s, LEAT_SECTION_PAIRS, &found, error);
    if (rc || !found)
        return rc;
    if ((rc = read_section(s, LEAT_SECTION_PAIRS, "the pairs of keypoints", &bytes, &length, error)))
        return rc;
    const bool good = leat_store_pairs_get(&s->layout, bytes, length, &memory);
    leat_free(bytes);
    if (!memory)
        return no_memory(error, length);
    return good ? LEAT_OK : corrupt(error, found->offset, "the pairs of keypoints are impossible");
}

static int read_columns(struct leat_store_source *s, struct leat_error *error)
{
    const struct leat_store_section *found;
    void *bytes = NULL;
    uint64_t length = 0;
    int rc = find_section(s, LEAT_SECTION_COLUMNS, &found, error);
    if (!rc && found)
        rc = read_section(s, LEAT_SECTION_COLUMNS, "the columns of sparse rows", &bytes, &length, error);
    if (rc)
        return rc;
    const bool good = leat_store_columns_get(&s->layout, bytes, length);
    leat_free(bytes);
    return good ? LEAT_OK
                : corrupt(error, found ? found->offset : s->sections_at, "the columns of sparse rows are impossible");
}

/* The fingerprint of a file that was converted is that of its source. If the section is of a file with other values, a
 * state of a run over the source would go on with these; if it is damaged, the state would be refused for no reason
 * that anyone sees. So the file is refused. */
static int read_conversion(struct leat_store_source *s, struct leat_error *error)
{
    const struct leat_store_section *found;
    struct leat_store_conversion conversion;
    void *bytes;
    uint64_t length;
    int rc = find_section(s, LEAT_SECTION_CONVERSION, &found, error);
    if (rc || !found)
        return rc;
    if ((rc = read_section(s, LEAT_SECTION_CONVERSION, "the fingerprint of the source", &bytes, &length, error)))
        return rc;
    const bool known = length == LEAT_STORE_CONVERSION && leat_store_conversion_get(bytes, &conversion);
    leat_free(bytes);
    if (length != LEAT_STORE_CONVERSION)
        return corrupt(error, found->offset, "the fingerprint of the source has a wrong length");
    if (!known) {
        leat_fail(error, LEAT_E_FORMAT,
                  "the fingerprint of the source has flags that this leat does not know: use a newer leat");
        leat_error_at_file(error, NULL, (int64_t)found->offset);
        return LEAT_E_FORMAT;
    }
    if (memcmp(conversion.values, s->summary.sums, sizeof conversion.values) != 0)
        return corrupt(error, found->offset, "the fingerprint of the source belongs to another file");
    s->base.converted = true;
    memcpy(s->base.of_source, conversion.sums, sizeof s->base.of_source);
    s->base.classes_apart = conversion.classes_apart;
    return LEAT_OK;
}

/* Optional: a file without LEAT_FEATURE_FORMS does not have it, because all its photos are original. */
static int read_forms(struct leat_store_source *s, struct leat_error *error)
{
    void *bytes;
    uint64_t length;
    if (!(s->layout.features & LEAT_FEATURE_FORMS)) {
        s->forms.photos[LEAT_FORM_ORIGINAL] = s->summary.count * s->layout.n_encoded;
        return LEAT_OK;
    }
    if (!has_section(s, LEAT_SECTION_FORMS, LEAT_STORE_FORMS))
        return LEAT_OK;
    int rc = read_section(s, LEAT_SECTION_FORMS, "the count of forms", &bytes, &length, error);
    if (rc)
        return rc;
    leat_store_forms_get(bytes, &s->forms);
    leat_free(bytes);
    return LEAT_OK;
}

/* Only the index of the section: page checksums are read as pieces are. Nobody needs them: if the index is damaged,
 * which leat_verify reports, values are verified as wholes. */
static int read_pages(struct leat_store_source *s, struct leat_error *error)
{
    const struct leat_store_section *x;
    const uint64_t index = 8 + s->n_groups * sizeof *s->paged;
    uint8_t checksum[8];
    int rc = find_section(s, LEAT_SECTION_PAGES, &x, error);
    if (rc || !x || x->length < 8 + index || x->length % 8)
        return rc;
    rc = leat_io_read(s->pages, x->offset, sizeof checksum, checksum, error);
    if (!rc)
        rc = read_checked(s, x->offset + 8, index, leat_get_u64(checksum), "the index of page checksums",
                          &s->page_index, error);
    if (rc)
        return rc == LEAT_E_CORRUPT ? LEAT_OK : rc;
    uint64_t shift = leat_get_u64(s->page_index), at = 0;
    s->page_checksums_at = x->offset + 8 + index;
    s->n_page_checksums = (x->length - 8 - index) / 8;
    s->paged = (void *)((uint8_t *)s->page_index + 8);
    bool good = shift >= 6 && shift <= 30;
    s->paged_shift = good ? (unsigned)shift : 0;
    for (uint64_t g = 0; g < s->n_groups && good; g++) {
        uint64_t n = leat_store_paged_count(s, g);
        good = s->paged[g].before == at && (!n || n == leat_store_pages(s->groups[g].payload_bytes, s->paged_shift));
        at += n;
    }
    if (!good || at != s->n_page_checksums) {
        s->paged = NULL;
        s->n_page_checksums = 0;
    }
    return LEAT_OK;
}

static bool bits_init(struct leat_bits *bits, uint64_t n)
{
    bits->n = n;
    bits->words = leat_new_array((n >> 6) + 1, sizeof *bits->words);
    return bits->words != NULL;
}

static int make_bits(struct leat_store_source *s, struct leat_error *error)
{
    uint32_t n = s->layout.n_stored;
    s->pages_good = leat_new_array(n, sizeof *s->pages_good);
    s->payloads_good = leat_new_array(n, sizeof *s->payloads_good);
    s->learnt[0] = leat_new_array(n, sizeof *s->learnt[0]);
    s->learnt[1] = leat_new_array(n, sizeof *s->learnt[1]);
    bool ok = s->pages_good && s->payloads_good && s->learnt[0] && s->learnt[1] &&
              bits_init(&s->groups_good, s->n_groups) && bits_init(&s->tables_good, s->n_groups) &&
              bits_init(&s->payload_pages_good, s->n_page_checksums);
    for (uint32_t f = 0; f < n && ok; f++)
        ok = bits_init(&s->pages_good[f], (s->summary.count >> s->layout.info[f].page_shift) + s->n_groups + 1);
    return ok ? LEAT_OK : no_memory(error, s->summary.count / 8);
}

/* ---- the source ------------------------------------------------------------------------------ */

/* A file is leat's by its name or end too, so that opening a damaged one says so. */
static bool recognise(const char *path, bool folder, const uint8_t *head, size_t n)
{
    struct leat_io_file *file;
    if (folder)
        return false;
    if ((n >= 8 && !memcmp(head, LEAT_STORE_MAGIC, 8)) || named_leat(path))
        return true;
    if (leat_io_open(path, &file, NULL))
        return false;
    bool ends = ends_as_leat(file);
    leat_io_release(file);
    return ends;
}

static void close_source(struct leat_source *source)
{
    struct leat_store_source *s = (struct leat_store_source *)source;
    for (uint32_t f = 0; f < s->layout.n_stored; f++) {
        _Atomic(struct leat_bits *) *lazy[3] = {s->payloads_good, s->learnt[0], s->learnt[1]};
        for (int k = 0; k < 3; k++) {
            struct leat_bits *bits = lazy[k] ? atomic_load(&lazy[k][f]) : NULL;
            leat_free(bits ? (void *)bits->words : NULL);
            leat_free(bits);
        }
        leat_free(s->pages_good ? (void *)s->pages_good[f].words : NULL);
    }
    leat_free((void *)s->groups_good.words);
    leat_free((void *)s->tables_good.words);
    leat_free((void *)s->payload_pages_good.words);
    leat_free(s->page_index);
    leat_free(s->pages_good);
    leat_free((void *)s->payloads_good);
    leat_free((void *)s->learnt[0]);
    leat_free((void *)s->learnt[1]);
    leat_free(s->groups);
    leat_free(s->first_rows);
    leat_free(s->columns_at);
    leat_free(s->hints);
    leat_free(s->sections);
    leat_free(s->metadata);
    leat_free(s->classes_bytes);
    leat_free(s->classes);
    leat_free(s->path);
    leat_free(s->storage);
    leat_store_layout_destroy(&s->layout);
    leat_io_release(s->pages);
    leat_io_release(s->file);
    leat_free(s);
}

/* A file still named .partial was never finished; any other without an end was cut. */
static int name_cut(const struct leat_store_source *s, int rc, struct leat_error *error)
{
    size_t n = strlen(s->path);
    if (rc != LEAT_E_UNFINISHED || (n > 8 && !strcmp(s->path + n - 8, ".partial")))
        return rc;
    return leat_fail(error, LEAT_E_CORRUPT, "the file has no end at its %" PRIu64 " bytes: it was cut. Copy it again",
                     s->file->size);
}

static int fill(struct leat_store_source *s, struct leat_error *error)
{
    static int (*const steps[])(struct leat_store_source *, struct leat_error *) = {
        read_classes, read_metadata, read_groups,     read_forms, read_roles,
        read_pairs,   read_columns,  read_conversion, read_pages, make_bits};
    struct leat_store_footer footer;
    int rc = read_header(s, error);
    if (!rc)
        rc = name_cut(s, read_footer(s, &footer, error), error);
    if (!rc)
        rc = read_directory(s, &footer, error);
    for (size_t i = 0; !rc && i < sizeof steps / sizeof *steps; i++)
        rc = steps[i](s, error);
    if (rc)
        return rc;
    uint64_t stamp, size;
    if ((rc = leat_io_stamp(s->file, &stamp, &size, error)))
        return rc;
    atomic_init(&s->stamp, stamp);
    if (s->file->backend->map && !(s->map = leat_io_map(s->file, error)))
        return error->code;
    if (!(s->storage = leat_alloc(s->layout.n_fields)))
        return no_memory(error, s->layout.n_fields);
    for (uint32_t f = 0; f < s->layout.n_fields; f++)
        s->storage[f] = s->layout.info[f].varying || !s->map ? LEAT_STORAGE_EXTENT : LEAT_STORAGE_MAPPED;
    s->base.storage = s->storage;
    s->base.looks_up = !s->map;
    s->base.path = s->path;
    s->base.count = s->summary.count;
    if (s->layout.row_bytes * s->base.count > COLD_COLUMNS) { /* no overflow: so many bytes lie in the file */
        uint64_t values = s->base.count / 16 * s->layout.n_stored;
        atomic_init(&s->cold_values, values < COLD_VALUES ? values : COLD_VALUES);
    }
    s->base.fields = s->layout.fields;
    s->base.n_fields = s->layout.n_fields;
    s->base.notice = "";
    s->base.by_value = true;
    s->base.fingerprint[0] = s->summary.sums[0];
    s->base.fingerprint[1] = s->summary.sums[1];
    return LEAT_OK;
}

/* If columns are short and lie apart, long blocks of them would be payloads mostly. */
static int shorten_blocks(struct leat_store_source *s, struct leat_error *error)
{
    struct leat_io_file *blocks;
    uint64_t payloads = 0;
    for (uint64_t g = 0; g < s->n_groups; g++)
        payloads += s->groups[g].payload_bytes;
    if (payloads < s->n_groups * REMOTE_BLOCK || s->sections_at - payloads > s->n_groups * REMOTE_COLUMNS)
        return LEAT_OK;
    int rc = leat_blocks_over(s->file, REMOTE_COLUMNS, false, NULL, NULL, &blocks, error);
    if (rc)
        return rc;
    leat_io_release(s->pages);
    s->pages = blocks;
    s->block_bytes = REMOTE_COLUMNS;
    return LEAT_OK;
}

int leat_store_open(const char *path, const struct leat_open_options *options, struct leat_source **out,
                    struct leat_error *error)
{
    struct leat_error unused;
    *out = NULL;
    if (!error)
        error = &unused;
    leat_error_clear(error);
    struct leat_store_source *s = leat_new(struct leat_store_source);
    if (!s)
        return no_memory(error, sizeof *s);
    s->base.v = &leat_format_native;
    s->recheck = options ? options->recheck : LEAT_RECHECK_FIRST;
    s->path = leat_strdup(path);
    int rc = s->path ? leat_io_open(path, &s->file, error) : no_memory(error, strlen(path));
    if (!rc && s->file->backend->map)
        s->pages = leat_io_retain(s->file);
    else if (!rc)
        rc = leat_blocks_over(s->file, s->block_bytes = REMOTE_BLOCK, false, NULL, NULL, &s->pages, error);
    s->kept = !rc && !s->file->backend->map && leat_blocks_hold(s->pages);
    if (!rc)
        rc = fill(s, error);
    if (!rc && !s->map && !s->kept)
        rc = shorten_blocks(s, error);
    if (rc) {
        leat_error_at_file(error, path, LEAT_NO_OFFSET);
        close_source(&s->base);
        return rc;
    }
    *out = &s->base;
    return LEAT_OK;
}

static int file_of(struct leat_source *source, uint64_t file, struct leat_io_file **out, struct leat_error *error)
{
    struct leat_store_source *s = (struct leat_store_source *)source;
    *out = leat_io_retain(file == LEAT_STORE_PAGES ? s->pages : s->file);
    return LEAT_OK;
}

static bool expect(const struct leat_source *source, uint64_t sample, const struct leat_extent *e)
{
    const struct leat_store_source *s = (const struct leat_store_source *)source;
    return leat_io_expect(e->file == LEAT_STORE_PAGES ? s->pages : s->file, e->offset - e->before,
                          e->before + e->length + e->after);
}

static int about(struct leat_source *source, struct leat_source_about *out, struct leat_error *error)
{
    const struct leat_store_source *s = (const struct leat_store_source *)source;
    *out =
        (struct leat_source_about){.version = LEAT_STORE_VERSION, .bytes = s->file->size, .broken = s->summary.broken};
    for (unsigned form = 0; form < LEAT_FORMS; form++) {
        out->photos[form] = s->forms.photos[form];
        out->photo_bytes[form] = s->forms.bytes[form];
        out->original_bytes[form] = s->forms.original[form];
    }
    return LEAT_OK;
}

void leat_store_file_facts(const struct leat_source *source, uint64_t *bytes, uint64_t *footer_checksum)
{
    const struct leat_store_source *s = (const struct leat_store_source *)source;
    *bytes = s->file->size;
    *footer_checksum = s->footer_checksum;
}

void leat_store_group_of(const struct leat_store_source *s, uint64_t group, struct leat_store_group *header,
                         struct leat_store_shape *shape)
{
    const struct leat_store_entry *e = &s->groups[group];
    *header = (struct leat_store_group){.first_row = e->first_row,
                                        .n_rows = e->n_rows,
                                        .payload_bytes = e->payload_bytes,
                                        .directory_bytes = e->directory_bytes,
                                        .directory_checksum = e->directory_checksum};
    leat_store_group_shape(&s->layout, e->n_rows, e->payload_bytes, e->directory_bytes, shape);
}

uint64_t leat_store_paged_count(const struct leat_store_source *s, uint64_t group)
{
    if (!s->paged)
        return 0;
    uint64_t end = group + 1 < s->n_groups ? s->paged[group + 1].before : s->n_page_checksums;
    return end - s->paged[group].before;
}

const struct leat_source_vtable leat_format_native = {
    .name = "leat",
    .recognise = recognise,
    .open = leat_store_open,
    .close = close_source,
    .rows = leat_store_rows,
    .extents = leat_store_extents,
    .piece = leat_store_piece,
    .check_piece = leat_store_check_piece,
    .lookups = leat_store_lookups,
    .file = file_of,
    .mark = leat_store_mark,
    .doubt = leat_store_doubt,
    .expect = expect,
    .refresh = leat_store_refresh,
    .column = leat_store_column,
    .span = leat_store_span,
    .checksums = true,
    .codes = leat_store_codes,
    .verify = leat_store_verify,
    .about = about,
};
