/*
 * Checks every byte of a file. Threads take groups one after the other and check them in the mapping. Their results
 * pass through a small queue to the caller's thread, which alone calls `report` and `progress`.
 *
 * Photos in the fast form are restored from a copy of their bytes, because that must not run over a mapping.
 *
 * Opening the file checks header, footer, directory and known sections. Here follow the groups, unknown sections, the
 * zeros between parts, and that the summary agrees with the groups.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/thread.h"
#include "format/fingerprint.h"
#include "io/guard.h"
#include "store/check.h"
#include "store/codes.h"
#include "store/manifest.h"
#include "store/reader.h"
#include "store/restore.h"

/* The result of checking one group. */
struct result {
    uint64_t group;
    int status; /* of the guarded read */
    struct leat_error error;
    struct leat_store_faults faults;
    struct leat_store_summary facts; /* sums, inputs and broken of the group */
    struct result *next;
};

struct job {
    struct leat_store_source *s;
    const struct leat_verify_options *options;
    uint64_t first_id, bytes_done;
    struct leat_source_codes *codes; /* per stored field; their memory is NULL if there are none */
    uint64_t **code_checksums;       /* of their texts */
    pthread_mutex_t lock;            /* everything below */
    pthread_cond_t came, went;
    struct result *results, *spare;
    uint64_t next_group, groups_done;
    bool stop;
    unsigned working;
    struct leat_error failed; /* memory is out: no fault of the file's */
};

struct touch { /* for leat_guarded */
    struct job *job;
    struct result *result;
};

static int check_one(void *arg)
{
    struct touch *t = arg;
    struct leat_store_source *s = t->job->s;
    struct leat_store_group group;
    struct leat_store_shape shape;
    leat_store_group_of(s, t->result->group, &group, &shape);
    const uint8_t *p = s->map + s->groups[t->result->group].offset;
    leat_store_check_group(&s->layout, p, &group, &shape, &t->result->faults);
    const uint64_t g = t->result->group, pages = leat_store_paged_count(s, g);
    if (pages)
        leat_store_check_pages(p, &group, s->paged_shift, s->map + s->page_checksums_at + 8 * s->paged[g].before, pages,
                               s->paged[g].checksum, &t->result->faults);
    for (uint32_t f = 0; f < s->layout.n_stored; f++)
        if (t->job->codes[f].memory && !t->result->faults.n) /* else records may be damaged */
            leat_store_check_codes(&s->layout, f, p, &group, &shape, &t->job->codes[f], t->job->code_checksums[f],
                                   &t->result->faults);
    t->result->facts = (struct leat_store_summary){
        .count = group.n_rows,
        .inputs = leat_get_u32(p + 28),
        .sums = {leat_get_u64(p + shape.directory_at), leat_get_u64(p + shape.directory_at + 8)},
        .broken = leat_get_u64(p + shape.directory_at + 16)};
    return LEAT_OK;
}

/* Requests the next group too, so that the disk works while a processor does. */
static void read_ahead(const struct leat_store_source *s, uint64_t group)
{
    for (uint64_t g = group; g < group + 2 && g < s->n_groups; g++) {
        struct leat_store_group header;
        struct leat_store_shape shape;
        leat_store_group_of(s, g, &header, &shape);
        uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), begin = s->groups[g].offset & ~(page - 1);
        madvise((void *)(uintptr_t)(s->map + begin), s->groups[g].offset + shape.bytes - begin, MADV_WILLNEED);
    }
}

/* Checks a group: first the checks that may run over the mapping, then its photos in the fast form. */
static int check_group(struct job *job, struct result *r, struct leat_growing *buffer)
{
    struct leat_store_group group;
    struct leat_store_shape shape;
    const int rc = leat_guarded(check_one, &(struct touch){job, r}, &r->error);
    if (rc)
        return rc;
    leat_store_group_of(job->s, r->group, &group, &shape);
    return leat_store_restore_photos(buffer, &job->s->layout, job->s->map + job->s->groups[r->group].offset, &group,
                                     &shape, &r->faults, &r->error);
}

static void *work(void *arg)
{
    struct job *job = arg;
    struct leat_growing buffer = {0};
    pthread_mutex_lock(&job->lock);
    while (!job->stop && job->next_group < job->s->n_groups) {
        struct result *r = job->spare;
        if (!r) {
            pthread_cond_wait(&job->went, &job->lock);
            continue;
        }
        job->spare = r->next;
        r->group = job->next_group++;
        r->faults.n = 0;
        r->faults.more = 0;
        pthread_mutex_unlock(&job->lock);
        read_ahead(job->s, r->group);
        leat_error_clear(&r->error);
        r->status = check_group(job, r, &buffer);
        pthread_mutex_lock(&job->lock);
        r->next = job->results;
        job->results = r;
        pthread_cond_signal(&job->came);
    }
    job->working--;
    pthread_cond_signal(&job->came);
    pthread_mutex_unlock(&job->lock);
    leat_growing_destroy(&buffer);
    return NULL;
}

/* ---- reporting ------------------------------------------------------------------------------- */

/* LEAT_E_CORRUPT: continue; LEAT_E_CANCELLED: the caller wants to stop. */
static int report(const struct leat_verify_options *options, const struct leat_error *fault)
{
    return options && options->report && options->report(options->user, fault) ? LEAT_E_CANCELLED : LEAT_E_CORRUPT;
}

static int report_fault(struct job *job, uint64_t group, const struct leat_store_fault *f)
{
    const struct leat_store_source *s = job->s;
    const struct leat_store_entry *e = &s->groups[group];
    uint64_t id = job->first_id + e->first_row + f->row;
    struct leat_error fault;
    const char *what = leat_store_fault_text(f->kind);
    if (f->rows > 1)
        leat_fail(&fault, LEAT_E_CORRUPT,
                  "%s: samples %" PRIu64 " to %" PRIu64 " cannot be trusted; restore the file or pack it again", what,
                  id, id + f->rows - 1);
    else if (f->rows)
        leat_fail(&fault, LEAT_E_CORRUPT, "%s: restore the file or pack it again", what);
    else
        leat_fail(&fault, LEAT_E_CORRUPT,
                  "%s (group of samples %" PRIu64 " to %" PRIu64 "): restore the file or pack it again", what, id,
                  id + (e->n_rows ? e->n_rows - 1 : 0));
    leat_error_at_file(&fault, s->path,
                       (int64_t)(f->kind == LEAT_FAULT_TABLE ? s->page_checksums_at + 8 * s->paged[group].before
                                                             : e->offset + f->offset));
    if (f->rows)
        leat_error_at_sample(&fault, (int64_t)id, s->layout.names[f->field]);
    return report(job->options, &fault);
}

/* Faults found before reading failed, or before memory was out, count all the same. */
static int report_result(struct job *job, const struct result *r)
{
    int rc = LEAT_OK;
    for (uint32_t i = 0; i < r->faults.n && rc != LEAT_E_CANCELLED; i++)
        rc = report_fault(job, r->group, &r->faults.list[i]);
    if (r->faults.more && rc != LEAT_E_CANCELLED) {
        struct leat_error fault;
        leat_fail(&fault, LEAT_E_CORRUPT,
                  "%" PRIu64 " further faults in the group of samples from %" PRIu64 " on: restore the file",
                  r->faults.more, job->first_id + job->s->groups[r->group].first_row);
        leat_error_at_file(&fault, job->s->path, (int64_t)job->s->groups[r->group].offset);
        rc = report(job->options, &fault);
    }
    if (!r->status || rc == LEAT_E_CANCELLED)
        return rc;
    if (r->status != LEAT_E_NOMEM)
        return report(job->options, &r->error);
    job->failed = r->error;
    return LEAT_E_CANCELLED;
}

static int place_fault(struct job *job, uint64_t offset, const char *what)
{
    struct leat_error fault;
    leat_fail(&fault, LEAT_E_CORRUPT, "%s: restore the file or pack it again", what);
    leat_error_at_file(&fault, job->s->path, (int64_t)offset);
    return report(job->options, &fault);
}

static int progress(struct job *job)
{
    const struct leat_verify_options *o = job->options;
    return o && o->progress && o->progress(o->user, job->bytes_done, job->s->file->size) ? LEAT_E_CANCELLED : LEAT_OK;
}

/* ---- between the groups ---------------------------------------------------------------------- */

struct stretch {
    const uint8_t *p;
    uint64_t from, to, checksum;
    bool zero;
};

static int check_stretch(void *arg)
{
    const struct stretch *x = arg;
    uint8_t any = 0;
    if (!x->zero)
        return leat_hash64(x->p + x->from, x->to - x->from) == x->checksum ? LEAT_OK : LEAT_E_CORRUPT;
    for (uint64_t i = x->from; i < x->to; i++)
        any |= x->p[i];
    return any ? LEAT_E_CORRUPT : LEAT_OK;
}

static int check_place(struct job *job, const struct stretch *x, const char *what)
{
    struct leat_error error;
    int rc = leat_guarded(check_stretch, (void *)(uintptr_t)x, &error);
    if (rc == LEAT_E_CORRUPT)
        return place_fault(job, x->from, what);
    return rc ? report(job->options, &error) : LEAT_OK;
}

/* Whether the section holds the codes that were checked against the texts. */
static bool has_codes(const struct job *job, const struct leat_store_section *x)
{
    uint8_t head[4];
    if (x->length < LEAT_CODES_HEAD || leat_io_read(job->s->pages, x->offset, sizeof head, head, NULL))
        return false;
    const uint32_t field = leat_get_u32(head);
    for (const struct leat_store_section *y = job->s->sections; y < x; y++) {
        uint8_t other[4];
        if (y->type == x->type && y->length >= LEAT_CODES_HEAD &&
            (leat_io_read(job->s->pages, y->offset, sizeof other, other, NULL) || leat_get_u32(other) == field))
            return false; /* the second of a field */
    }
    return field < job->s->layout.n_stored && job->codes[field].memory;
}

static int check_sections(struct job *job)
{
    struct leat_store_source *s = job->s;
    uint64_t at = s->header_bytes, bytes;
    if (s->n_groups) {
        struct leat_store_group group;
        struct leat_store_shape shape;
        leat_store_group_of(s, s->n_groups - 1, &group, &shape);
        at = s->groups[s->n_groups - 1].offset + shape.bytes;
    }
    int worst = LEAT_OK;
    for (uint32_t i = 0; i <= s->n_sections && worst != LEAT_E_CANCELLED; i++) {
        const struct leat_store_section *x = i < s->n_sections ? &s->sections[i] : NULL;
        uint64_t next = x ? x->offset : s->directory_at;
        int rc = check_place(job, &(struct stretch){s->map, at, next, 0, true}, "bytes that must be zero are not");
        worst = rc ? rc : worst;
        if (!x || worst == LEAT_E_CANCELLED)
            continue;
        rc = check_place(job, &(struct stretch){s->map, x->offset, x->offset + x->length, x->checksum, false},
                         "a section fails its checksum");
        if (!rc && x->type == LEAT_SECTION_PAGES && !x->codec && !s->paged)
            rc = place_fault(job, x->offset, "the index of page checksums is impossible");
        if (!rc && x->type == LEAT_SECTION_CODES && !x->codec && !has_codes(job, x))
            rc = place_fault(job, x->offset, "the codes of texts are impossible");
        worst = rc ? rc : worst;
        at = x->offset + x->length;
    }
    bytes = s->directory_at + (uint64_t)s->n_sections * LEAT_STORE_SECTION_ENTRY;
    int rc = worst == LEAT_E_CANCELLED
                 ? worst
                 : check_place(job, &(struct stretch){s->map, bytes, s->file->size - LEAT_STORE_FOOTER, 0, true},
                               "bytes that must be zero are not");
    return rc ? rc : worst;
}

/* ---- one file -------------------------------------------------------------------------------- */

/* Results arrive in any order; sums are joined in the order of groups. */
static int check_summary(struct job *job, const struct leat_store_summary *facts)
{
    const struct leat_store_summary *want = &job->s->summary;
    struct leat_store_summary all = {0};
    for (uint64_t g = 0; g < job->s->n_groups; g++) {
        leat_fingerprint_join(all.sums, facts[g].sums, facts[g].count);
        all.inputs += facts[g].inputs;
        all.broken += facts[g].broken;
        all.skipped += facts[g].inputs - facts[g].count;
    }
    if (all.sums[0] == want->sums[0] && all.sums[1] == want->sums[1] && all.inputs == want->inputs &&
        all.broken == want->broken && all.skipped == want->skipped)
        return LEAT_OK;
    return place_fault(job, job->s->sections_at, "the summary (counts, fingerprint) is not what the groups say");
}

/* The calling thread: takes results until the threads have ended. */
static int gather(struct job *job, struct leat_store_summary *facts)
{
    int worst = LEAT_OK;
    pthread_mutex_lock(&job->lock);
    while (job->working || job->results) {
        struct result *r = job->results;
        if (!r) {
            struct timespec until;
            clock_gettime(CLOCK_MONOTONIC, &until);
            until.tv_sec += 1;
            if (pthread_cond_clockwait(&job->came, &job->lock, CLOCK_MONOTONIC, &until) != ETIMEDOUT)
                continue;
        } else {
            job->results = r->next;
        }
        pthread_mutex_unlock(&job->lock);
        int rc = LEAT_OK;
        if (r) {
            struct leat_store_group group;
            struct leat_store_shape shape;
            leat_store_group_of(job->s, r->group, &group, &shape);
            job->bytes_done += shape.bytes;
            facts[r->group] = r->facts;
            rc = worst == LEAT_E_CANCELLED ? worst : report_result(job, r);
        }
        if (rc != LEAT_E_CANCELLED && worst != LEAT_E_CANCELLED && progress(job))
            rc = LEAT_E_CANCELLED;
        if (worst != LEAT_E_CANCELLED)
            worst = rc ? rc : worst;
        pthread_mutex_lock(&job->lock);
        job->stop |= worst == LEAT_E_CANCELLED;
        if (r) {
            r->next = job->spare;
            job->spare = r;
        }
        pthread_cond_broadcast(&job->went);
    }
    pthread_mutex_unlock(&job->lock);
    return worst;
}

/* Reads the codes of texts. NOMEM, IO. */
static int read_codes(struct job *job, struct leat_error *error)
{
    struct leat_store_source *s = job->s;
    job->codes = leat_new_array(s->layout.n_stored, sizeof *job->codes);
    job->code_checksums = leat_new_array(s->layout.n_stored, sizeof(uint64_t *));
    if (!job->codes || !job->code_checksums)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to verify a file");
    for (uint32_t f = 0; f < s->layout.n_stored; f++) {
        struct leat_source_codes *c = &job->codes[f];
        int rc = leat_store_codes(&s->base, f, c, error);
        if (rc == LEAT_E_NOMEM)
            return rc;
        if (rc || !c->memory) /* bytes that cannot be read are reported with their section */
            continue;
        if (!(job->code_checksums[f] = leat_new_array(c->n, sizeof(uint64_t))))
            return leat_fail(error, LEAT_E_NOMEM, "no memory to verify a file");
        const uint8_t *text = c->texts;
        for (uint32_t i = 0; i < c->n; text += leat_get_u32(c->lengths + 4 * (size_t)i++))
            job->code_checksums[f][i] = leat_hash64(text, leat_get_u32(c->lengths + 4 * (size_t)i));
    }
    return LEAT_OK;
}

static unsigned start_threads(struct job *job, pthread_t *threads, unsigned n)
{
    unsigned started = 0;
    int failed = 0;
    pthread_mutex_lock(&job->lock);
    for (; started < n && !(failed = leat_thread_start(&threads[started], work, job)); started++)
        job->working++;
    pthread_mutex_unlock(&job->lock);
    errno = failed;
    return started;
}

int leat_store_verify(struct leat_source *source, const struct leat_verify_options *options, uint64_t first_id,
                      struct leat_error *error)
{
    struct leat_store_source *s = (struct leat_store_source *)source;
    if (!s->map)
        return leat_fail(error, LEAT_E_UNSUPPORTED, "%s cannot be verified where it is: copy it here", s->path);
    struct job job = {.s = s, .options = options, .first_id = first_id, .bytes_done = s->header_bytes};
    unsigned n = options && options->num_threads ? options->num_threads : leat_cpu_count(), started = 0;
    n = n > 256 ? 256 : n;
    struct leat_store_summary *facts = leat_new_array(s->n_groups, sizeof *facts);
    struct result *results = leat_new_array(n + 2, sizeof *results);
    pthread_t *threads = leat_new_array(n, sizeof *threads);
    int rc = LEAT_OK;
    pthread_mutex_init(&job.lock, NULL);
    pthread_cond_init(&job.came, NULL);
    pthread_cond_init(&job.went, NULL);
    if (!facts || !results || !threads) {
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory to verify with %u threads", n);
        goto out;
    }
    for (unsigned i = 0; i < n + 2; i++) {
        results[i].next = job.spare;
        job.spare = &results[i];
    }
    if ((rc = read_codes(&job, error)))
        goto out;
    started = start_threads(&job, threads, n);
    if (!started) {
        rc = leat_fail_errno(error, LEAT_E_NOMEM, "no thread could be started");
        goto out;
    }
    rc = gather(&job, facts);
    for (unsigned i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    int sections = rc == LEAT_E_CANCELLED ? LEAT_OK : check_sections(&job);
    rc = sections ? sections : rc;
    if (!rc) /* with a damaged group the sums would differ too */
        rc = check_summary(&job, facts);
    job.bytes_done = s->file->size;
    if (rc != LEAT_E_CANCELLED && progress(&job))
        rc = LEAT_E_CANCELLED;
    if (job.failed.code) {
        rc = job.failed.code;
        if (error)
            *error = job.failed;
    } else if (rc == LEAT_E_CANCELLED)
        leat_fail(error, rc, "verifying was stopped");
    else if (rc) {
        leat_fail(error, rc, "the file is damaged: restore it or pack it again");
        leat_error_at_file(error, s->path, LEAT_NO_OFFSET);
    }
out:
    pthread_cond_destroy(&job.came);
    pthread_cond_destroy(&job.went);
    pthread_mutex_destroy(&job.lock);
    for (uint32_t f = 0; f < s->layout.n_stored; f++) {
        leat_free(job.codes ? job.codes[f].memory : NULL);
        leat_free(job.code_checksums ? job.code_checksums[f] : NULL);
    }
    leat_free(job.codes);
    leat_free(job.code_checksums);
    leat_free(facts);
    leat_free(results);
    leat_free(threads);
    return rc;
}

/* ---- any path -------------------------------------------------------------------------------- */

struct sum_of_shards {
    const struct leat_verify_options *options;
    uint64_t before, total, faults;
};

static int shard_report(void *user, const struct leat_error *fault)
{
    struct sum_of_shards *sum = user;
    sum->faults++;
    return sum->options->report ? sum->options->report(sum->options->user, fault) : 0;
}

static int shard_progress(void *user, uint64_t bytes, uint64_t total)
{
    const struct sum_of_shards *sum = user;
    return sum->options->progress
               ? sum->options->progress(sum->options->user, sum->before + bytes, sum->total ? sum->total : total)
               : 0;
}

static int verify_shards(const struct leat_manifest *m, const char *path, const struct leat_verify_options *options,
                         struct leat_error *error)
{
    struct sum_of_shards sum = {.options = options};
    struct leat_verify_options inner = {.struct_size = sizeof inner,
                                        .num_threads = options->num_threads,
                                        .report = shard_report,
                                        .progress = shard_progress,
                                        .user = &sum};
    uint64_t first_id = 0;
    int worst = LEAT_OK;
    for (size_t i = 0; i < m->n_shards; i++)
        sum.total += m->shards[i].bytes;
    for (size_t i = 0; i < m->n_shards; i++) {
        struct leat_source *source = NULL;
        char *shard = leat_manifest_shard_path(path, m->shards[i].file);
        int rc = shard ? leat_store_open(shard, NULL, &source, error)
                       : leat_fail(error, LEAT_E_NOMEM, "no memory for a path");
        leat_free(shard);
        if (!rc)
            rc = leat_manifest_check_shard(&m->shards[i], source, error);
        if (rc && leat_source_is_fault(rc))
            rc = error && report(options, error) == LEAT_E_CANCELLED ? LEAT_E_CANCELLED : LEAT_E_CORRUPT;
        else if (!rc)
            rc = leat_store_verify(source, &inner, first_id, error);
        leat_source_close(source);
        if (rc && rc != LEAT_E_CORRUPT)
            return rc;
        worst = rc ? rc : worst;
        sum.before += m->shards[i].bytes;
        first_id += m->shards[i].count;
    }
    if (worst) {
        leat_fail(error, worst, "the data set is damaged: restore it or pack it again");
        leat_error_at_file(error, path, LEAT_NO_OFFSET);
    }
    return worst;
}

/* Of any format. A fault that ended it, and of which it has told nobody, is told of here. */
static int verify_source(struct leat_source *source, const struct leat_verify_options *options,
                         struct leat_error *error)
{
    struct sum_of_shards sum = {.options = options};
    const struct leat_verify_options inner = {.struct_size = sizeof inner,
                                              .num_threads = options->num_threads,
                                              .report = shard_report,
                                              .progress = shard_progress,
                                              .user = &sum,
                                              .verified = options->verified};
    const int rc = source->v->verify(source, &inner, 0, error);
    return rc && leat_source_is_fault(rc) && !sum.faults ? report(options, error) : rc;
}

int leat_verify(const char *path, const struct leat_verify_options *options, struct leat_error *error)
{
    struct leat_verify_options all = {.struct_size = sizeof all};
    struct leat_error unused;
    struct leat_manifest manifest = {0};
    struct leat_source *source = NULL;
    struct leat_io_file *file = NULL;
    struct stat st;
    uint8_t head[64];
    bool is_manifest = false;
    leat_log_check();
    error = error ? error : &unused;
    if (options)
        memcpy(&all, options, options->struct_size < sizeof all ? options->struct_size : sizeof all);
    options = &all;
    leat_source_tell_verified(options, LEAT_VERIFIED_SUMS);
    leat_error_clear(error);
    struct leat_open_options opening = LEAT_OPEN_OPTIONS_INIT;
    opening.verifying = true;
    const bool remote = leat_io_is_remote(path);
    int rc = !remote && stat(path, &st)
                 ? leat_fail_errno(error, errno == ENOENT ? LEAT_E_NOT_FOUND : LEAT_E_IO, "cannot look at the path")
                 : LEAT_OK;
    if (rc) {
        leat_error_at_file(error, path, LEAT_NO_OFFSET);
        return rc;
    }
    if (!rc && (remote || S_ISREG(st.st_mode)) && !(rc = leat_io_open(path, &file, error))) {
        size_t n = file->size < sizeof head ? (size_t)file->size : sizeof head;
        is_manifest = !leat_io_read(file, 0, n, head, error) && leat_manifest_recognise(head, n);
        leat_io_release(file);
    }
    if (!rc)
        rc =
            is_manifest ? leat_manifest_read(path, &manifest, error) : leat_source_open(path, &opening, &source, error);
    if (rc && leat_source_is_fault(rc))
        return report(options, error) == LEAT_E_CANCELLED ? LEAT_E_CANCELLED : LEAT_E_CORRUPT;
    if (rc)
        return rc;
    if (is_manifest)
        rc = verify_shards(&manifest, path, options, error);
    else if (source->v->verify)
        rc = verify_source(source, options, error);
    else
        rc = leat_source_fail_unsummed(source, path, error);
    leat_manifest_destroy(&manifest);
    leat_source_close(source);
    return rc;
}
