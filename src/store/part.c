/*
 * Writing one file so that a crash at any time leaves either no file or a complete one: everything goes to .partial,
 * is synced, and only then gets its name. A lock on .partial (flock) keeps a second writer out. It belongs to the open
 * file, so a killed writer leaves no lock. Some file systems have none (Lustre without the option flock, NFS without
 * lockd): files are written there without it.
 */
#include "store/part.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/transfer.h"
#include "format/fingerprint.h"

/* RENAME_NOREPLACE closes the gap between looking for the target and renaming, if the file system has it. */
int leat_part_rename(const char *from, const char *to, bool replace)
{
    if (replace)
        return rename(from, to);
    if (!renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE))
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    if (!access(to, F_OK)) {
        errno = EEXIST;
        return -1;
    }
    return rename(from, to);
}

int leat_part_write(int fd, const char *path, const void *data, size_t bytes, uint64_t offset, struct leat_error *error)
{
    const uint64_t done = leat_write_at(fd, data, bytes, offset);
    if (done == bytes)
        return LEAT_OK;
    const bool full = !errno || errno == ENOSPC || errno == EDQUOT;
    int rc = leat_fail_errno(error, LEAT_E_IO, "writing failed at byte %" PRIu64 "%s", offset + done,
                             full ? ": make room on the disk, then start again with resume to continue"
                                  : ": remove the cause, then start again with resume to continue");
    leat_error_at_file(error, path, (int64_t)(offset + done));
    return rc;
}

/* Allocates nothing: it comes after the rename, when only the disk may still fail. */
int leat_part_sync_folder(const char *path, struct leat_error *error)
{
    int rc = LEAT_OK;
    char folder[PATH_MAX] = ".";
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 1;
    if (slash && n < sizeof folder) {
        memcpy(folder, path, n ? n : 1);
        folder[n ? n : 1] = 0;
    }
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Some file systems cannot sync a folder (EINVAL) or open it for that (EACCES): there is no remedy then. */
    if (fd < 0 ? errno != EACCES : fsync(fd) && errno != EINVAL) {
        rc = leat_fail_errno(error, LEAT_E_IO, "syncing the folder failed: check the disk");
        leat_error_at_file(error, folder, LEAT_NO_OFFSET);
    }
    if (fd >= 0)
        close(fd);
    return rc;
}

/* Locks the file that is at `path` now: another writer may have renamed it between our open and our lock. */
static int lock_file(const char *path, int *fd, struct leat_error *error)
{
    for (int attempt = 0; attempt < 16; attempt++) {
        struct stat ours, there;
        if (flock(*fd, LOCK_EX | LOCK_NB)) {
            if (errno == EINTR)
                continue;
            if (errno == EWOULDBLOCK)
                return leat_fail(error, LEAT_E_BUSY, "another process writes this target: wait for it or stop it");
            leat_log(LEAT_LOG_WARNING, "%s: the file system has no locks, so a second writer is not kept out: %s", path,
                     strerror(errno));
            return LEAT_OK;
        }
        if (!fstat(*fd, &ours) && !stat(path, &there) && ours.st_ino == there.st_ino && ours.st_dev == there.st_dev)
            return LEAT_OK;
        close(*fd);
        *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (*fd < 0)
            return leat_fail_errno(error, LEAT_E_IO, "cannot create the file");
    }
    return leat_fail(error, LEAT_E_BUSY, "another process keeps replacing this file: stop it");
}

char *leat_part_partial(const char *path)
{
    size_t n = strlen(path) + sizeof ".partial";
    char *partial = leat_alloc(n);
    if (partial)
        snprintf(partial, n, "%s.partial", path);
    return partial;
}

int leat_part_open(struct leat_part *part, const char *path, bool lock, struct leat_error *error)
{
    int rc = LEAT_OK;
    memset(part, 0, sizeof *part);
    part->fd = -1;
    part->path = leat_strdup(path);
    part->partial = leat_part_partial(path);
    if (!part->path || !part->partial) {
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a path");
        goto out;
    }
    part->fd = open(part->partial, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (part->fd < 0 && errno == ENOENT && strstr(path, "://")) {
        rc = leat_fail_at(error, LEAT_E_IO, path, LEAT_NO_OFFSET,
                          "a file is written to a path alone: write it here, and copy it there");
        goto out;
    }
    if (part->fd < 0)
        rc = leat_fail_errno(error, LEAT_E_IO, "cannot create the file: make its folder exist and writable");
    else if (lock)
        rc = lock_file(part->partial, &part->fd, error);
    if (rc)
        leat_error_at_file(error, part->partial, LEAT_NO_OFFSET);
out:
    if (rc)
        leat_part_destroy(part, false);
    return rc;
}

static void drop_coders(struct leat_part *part)
{
    for (uint32_t f = 0; f < part->n_coders; f++)
        leat_store_coder_destroy(&part->coders[f]);
    leat_free(part->coders);
    part->coders = NULL;
    part->n_coders = 0;
}

void leat_part_destroy(struct leat_part *part, bool remove)
{
    if (remove && part->partial)
        unlink(part->partial);
    if (part->fd >= 0)
        close(part->fd);
    leat_free(part->path);
    leat_free(part->partial);
    leat_growing_destroy(&part->entries);
    leat_growing_destroy(&part->paged);
    leat_growing_destroy(&part->page_checksums);
    drop_coders(part);
    memset(part, 0, sizeof *part);
    part->fd = -1;
}

int leat_part_start(struct leat_part *part, const uint8_t *header, uint64_t header_bytes, struct leat_error *error)
{
    if (ftruncate(part->fd, 0)) {
        int rc = leat_fail_errno(error, LEAT_E_IO, "cannot empty the file");
        leat_error_at_file(error, part->partial, LEAT_NO_OFFSET);
        return rc;
    }
    int rc = leat_part_write(part->fd, part->partial, header, header_bytes, 0, error);
    if (rc)
        return rc;
    part->bytes = header_bytes;
    part->header_checksum = leat_store_header_checksum(header, header_bytes);
    part->entries.length = part->paged.length = part->page_checksums.length = 0;
    drop_coders(part);
    memset(&part->summary, 0, sizeof part->summary);
    memset(&part->forms, 0, sizeof part->forms);
    return LEAT_OK;
}

/* The forms of a group's photos, from its columns. */
static void count_forms(struct leat_store_forms *forms, const struct leat_store_layout *l, const uint8_t *columns,
                        uint64_t n_rows)
{
    for (uint32_t f = 0; f < l->n_stored; f++)
        for (uint64_t row = 0; row < n_rows && l->info[f].codec; row++) {
            struct leat_store_record r;
            leat_store_record_get(columns + l->info[f].before * n_rows + row * l->info[f].width, &r, true);
            forms->photos[r.info.form]++;
            forms->bytes[r.info.form] += r.length + r.info.rows_length;
            forms->original[r.info.form] += r.info.form ? r.info.original : r.length;
        }
}

static bool has_large_value(const struct leat_store_layout *l, const uint8_t *columns, uint64_t n_rows)
{
    for (uint32_t f = 0; f < l->n_stored; f++)
        for (uint64_t row = 0; row < n_rows && l->info[f].varying && !l->info[f].codec; row++) {
            struct leat_store_record r;
            leat_store_record_get(columns + l->info[f].before * n_rows + row * l->info[f].width, &r, false);
            if (r.length >= l->tuning.large)
                return true;
        }
    return false;
}

static bool count_pages(struct leat_part *part, const uint8_t *group, uint64_t payload_bytes, unsigned shift,
                        bool large)
{
    const uint64_t before = part->page_checksums.length;
    bool ok = true;
    for (uint64_t page = 0; ok && large && page < leat_store_pages(payload_bytes, shift); page++) {
        uint64_t sum = leat_store_page_checksum(group, payload_bytes, shift, page);
        ok = leat_growing_append(&part->page_checksums, &sum, sizeof sum);
    }
    if (!ok)
        return false;
    const uint64_t bytes = part->page_checksums.length - before;
    struct leat_store_paged entry = {before / 8, bytes ? leat_hash64(part->page_checksums.data + before, bytes) : 0};
    return leat_growing_append(&part->paged, &entry, sizeof entry);
}

/* Texts that repeat. */
static bool count_texts(struct leat_part *part, const struct leat_store_layout *l, const uint8_t *group,
                        const struct leat_store_group *g, const struct leat_store_shape *shape)
{
    bool ok = true;
    if (!part->coders && (part->coders = leat_new_array(l->n_stored, sizeof *part->coders)))
        part->n_coders = l->n_stored;
    for (uint32_t f = 0; ok && f < part->n_coders; f++)
        if (l->fields[f].kind == LEAT_KIND_STR || l->fields[f].kind == LEAT_KIND_JSON)
            ok = leat_store_coder_add(&part->coders[f], l, f, group, g, shape);
    return ok && part->coders;
}

int leat_part_count(struct leat_part *part, const struct leat_store_layout *layout, const uint8_t *group,
                    uint64_t offset, struct leat_error *error)
{
    struct leat_store_group g;
    struct leat_store_shape shape;
    leat_store_group_get(group, &g);
    if (!leat_store_group_shape(layout, g.n_rows, g.payload_bytes, g.directory_bytes, &shape))
        return leat_fail(error, LEAT_E_CORRUPT, "a group has an impossible shape");
    struct leat_store_entry entry = {.offset = offset,
                                     .first_row = g.first_row,
                                     .n_rows = g.n_rows,
                                     .payload_bytes = g.payload_bytes,
                                     .directory_bytes = g.directory_bytes,
                                     .directory_checksum = g.directory_checksum};
    if (!leat_growing_append(&part->entries, &entry, sizeof entry) ||
        !count_pages(part, group, g.payload_bytes, layout->tuning.shift,
                     has_large_value(layout, group + shape.columns_at, g.n_rows)) ||
        !count_texts(part, layout, group, &g, &shape))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the index of groups");
    if (layout->features & LEAT_FEATURE_FORMS)
        count_forms(&part->forms, layout, group + shape.columns_at, g.n_rows);
    const uint8_t *directory = group + shape.directory_at;
    uint64_t sums[2] = {leat_get_u64(directory), leat_get_u64(directory + 8)};
    leat_fingerprint_join(part->summary.sums, sums, g.n_rows);
    part->summary.count += g.n_rows;
    part->summary.inputs += g.n_inputs;
    part->summary.broken += leat_get_u64(directory + 16);
    part->summary.skipped += g.n_inputs - g.n_rows;
    part->bytes = offset + shape.bytes;
    return LEAT_OK;
}

int leat_part_append(struct leat_part *part, const uint8_t *group, size_t bytes, struct leat_error *error)
{
    const int rc = leat_part_write(part->fd, part->partial, group, bytes, part->bytes, error);
    /* The disk begins now, while further groups are made: the sync at the end, which alone says that all is there, then
     * waits for little. */
    if (!rc)
        (void)sync_file_range(part->fd, (off_t)part->bytes, (off_t)bytes, SYNC_FILE_RANGE_WRITE);
    return rc;
}

/* ---- the end of a file ----------------------------------------------------------------------- */

/* The codes of texts: one section for each field that has them, written before the others, because they are long. */
static int write_codes(struct leat_part *part, const struct leat_store_layout *layout, struct leat_growing *directory,
                       struct leat_error *error)
{
    static const uint8_t zeros[LEAT_STORE_ALIGN];
    for (uint32_t f = 0; f < part->n_coders; f++) {
        struct leat_growing *codes = &part->coders[f].codes;
        bool there;
        uint8_t *entry = NULL;
        if (!leat_store_coder_end(&part->coders[f], layout, f, part->summary.count, &there) ||
            (there && !(entry = leat_growing_extend(directory, LEAT_STORE_SECTION_ENTRY))))
            return leat_fail(error, LEAT_E_NOMEM, "no memory for the codes of texts");
        if (!there)
            continue;
        struct leat_store_section s = {.type = LEAT_SECTION_CODES,
                                       .align_log2 = 6,
                                       .offset = part->bytes,
                                       .length = codes->length,
                                       .checksum = leat_hash64(codes->data, codes->length)};
        const uint64_t rest = leat_store_align(codes->length, LEAT_STORE_ALIGN) - codes->length;
        leat_store_section_put(entry, &s);
        int rc = leat_part_write(part->fd, part->partial, codes->data, codes->length, part->bytes, error);
        if (!rc)
            rc = leat_part_write(part->fd, part->partial, zeros, rest, part->bytes + codes->length, error);
        if (rc)
            return rc;
        part->bytes += codes->length + rest;
        leat_store_coder_destroy(&part->coders[f]);
    }
    return LEAT_OK;
}

/* Adds a section to `tail`, whose first byte is at part->bytes, and its entry to `directory`. */
static bool add_section(const struct leat_part *part, struct leat_growing *tail, struct leat_growing *directory,
                        uint32_t type, uint16_t flags, const void *data, uint64_t length)
{
    if (!leat_growing_align(tail, LEAT_STORE_ALIGN))
        return false;
    struct leat_store_section s = {.type = type,
                                   .flags = flags,
                                   .align_log2 = 6,
                                   .offset = part->bytes + tail->length,
                                   .length = length,
                                   .checksum = leat_hash64(data, length)};
    uint8_t *entry = leat_growing_extend(directory, LEAT_STORE_SECTION_ENTRY);
    if (!entry)
        return false;
    leat_store_section_put(entry, &s);
    return leat_growing_append(tail, data, length);
}

static bool pack_classes(struct leat_growing *out, const char *const *classes, size_t n)
{
    uint8_t number[4];
    leat_put_u32(number, (uint32_t)n);
    bool ok = leat_growing_append(out, number, 4);
    for (size_t i = 0; i < n && ok; i++) {
        leat_put_u32(number, (uint32_t)strlen(classes[i]));
        ok = leat_growing_append(out, number, 4) && leat_growing_append(out, classes[i], strlen(classes[i]) + 1);
    }
    return ok;
}

static bool pack_pages(struct leat_growing *out, const struct leat_part *part, unsigned shift)
{
    out->length = 0;
    bool ok = leat_growing_extend(out, LEAT_STORE_PAGES_HEAD) &&
              leat_growing_append(out, part->paged.data, part->paged.length) &&
              leat_growing_append(out, part->page_checksums.data, part->page_checksums.length);
    if (ok) {
        leat_put_u64(out->data + 8, shift);
        leat_put_u64(out->data, leat_hash64(out->data + 8, 8 + part->paged.length));
    }
    return ok;
}

static bool build_tail(struct leat_part *part, const struct leat_store_layout *layout, struct leat_growing *tail,
                       struct leat_growing *directory, struct leat_growing *scratch,
                       const struct leat_store_forms *forms, const char *const *classes, size_t n_classes,
                       const char *metadata, const struct leat_store_conversion *conversion)
{
    uint8_t summary[LEAT_STORE_SUMMARY];
    leat_store_summary_put(summary, &part->summary);
    bool ok =
        pack_classes(scratch, classes, n_classes) &&
        add_section(part, tail, directory, LEAT_SECTION_CLASSES, LEAT_SECTION_REQUIRED, scratch->data,
                    scratch->length) &&
        add_section(part, tail, directory, LEAT_SECTION_METADATA, LEAT_SECTION_REQUIRED, metadata, strlen(metadata)) &&
        add_section(part, tail, directory, LEAT_SECTION_GROUPS, LEAT_SECTION_REQUIRED, part->entries.data,
                    part->entries.length) &&
        add_section(part, tail, directory, LEAT_SECTION_SUMMARY, LEAT_SECTION_REQUIRED, summary, sizeof summary);
    if (ok && forms) {
        uint8_t counted[LEAT_STORE_FORMS];
        leat_store_forms_put(counted, forms);
        ok = add_section(part, tail, directory, LEAT_SECTION_FORMS, 0, counted, sizeof counted);
    }
    if (ok && conversion) {
        uint8_t converted[LEAT_STORE_CONVERSION];
        leat_store_conversion_put(converted, conversion);
        ok = add_section(part, tail, directory, LEAT_SECTION_CONVERSION, 0, converted, sizeof converted);
    }
    uint8_t roles[LEAT_STORE_MAX_FIELDS];
    if (ok && leat_store_roles_put(layout, roles))
        ok = add_section(part, tail, directory, LEAT_SECTION_ROLES, 0, roles, layout->n_stored);
    scratch->length = 0;
    ok = ok && leat_store_pairs_put(layout, scratch);
    if (ok && scratch->length)
        ok = add_section(part, tail, directory, LEAT_SECTION_PAIRS, 0, scratch->data, scratch->length);
    scratch->length = 0;
    ok = ok && leat_store_columns_put(layout, scratch);
    if (ok && scratch->length)
        ok = add_section(part, tail, directory, LEAT_SECTION_COLUMNS, 0, scratch->data, scratch->length);
    if (ok && part->page_checksums.length)
        ok = pack_pages(scratch, part, layout->tuning.shift) &&
             add_section(part, tail, directory, LEAT_SECTION_PAGES, 0, scratch->data, scratch->length);
    ok = ok && leat_growing_align(tail, LEAT_STORE_ALIGN);
    struct leat_store_footer footer = {.directory_at = part->bytes + tail->length,
                                       .directory_bytes = directory->length,
                                       .directory_checksum = leat_hash64(directory->data, directory->length),
                                       .header_checksum = part->header_checksum,
                                       .version = LEAT_STORE_VERSION};
    ok = ok && leat_growing_append(tail, directory->data, directory->length) &&
         leat_growing_align(tail, LEAT_STORE_ALIGN);
    uint8_t *end = ok ? leat_growing_extend(tail, LEAT_STORE_FOOTER) : NULL;
    if (!end)
        return false;
    footer.file_bytes = part->bytes + tail->length;
    leat_store_footer_put(end, &footer);
    part->footer_checksum = leat_get_u64(end + LEAT_STORE_FOOTER - 8);
    return true;
}

int leat_part_end(struct leat_part *part, const struct leat_store_layout *layout, const char *const *classes,
                  size_t n_classes, const char *metadata, const struct leat_store_conversion *conversion,
                  struct leat_error *error)
{
    struct leat_growing tail = {0}, directory = {0}, scratch = {0};
    int rc = write_codes(part, layout, &directory, error);
    if (!rc)
        rc = build_tail(part, layout, &tail, &directory, &scratch,
                        layout->features & LEAT_FEATURE_FORMS ? &part->forms : NULL, classes, n_classes, metadata,
                        conversion)
                 ? leat_part_write(part->fd, part->partial, tail.data, tail.length, part->bytes, error)
                 : leat_fail(error, LEAT_E_NOMEM, "no memory for the index of the file");
    if (rc)
        goto out;
    part->bytes += tail.length;
    if (ftruncate(part->fd, (off_t)part->bytes) || fsync(part->fd)) {
        rc =
            leat_fail_errno(error, LEAT_E_IO, "the disk did not take the file: check it, then start again with resume");
        leat_error_at_file(error, part->partial, LEAT_NO_OFFSET);
    }
out:
    leat_growing_destroy(&tail);
    leat_growing_destroy(&directory);
    leat_growing_destroy(&scratch);
    return rc;
}

int leat_part_publish(const char *partial, const char *path, bool replace, struct leat_error *error)
{
    if (!leat_part_rename(partial, path, replace))
        return LEAT_OK;
    int rc =
        errno == EEXIST
            ? leat_fail(error, LEAT_E_EXISTS, "the target appeared while it was written: remove it, or overwrite it")
            : leat_fail_errno(error, LEAT_E_IO, "the finished file could not be renamed: start again with resume");
    leat_error_at_file(error, path, LEAT_NO_OFFSET);
    return rc;
}
