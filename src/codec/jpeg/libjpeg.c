/*
 * The callbacks that libjpeg wants. The one warning that is none: an unknown minor or major number of the JFIF
 * revision, which has no influence on pixels.
 */
#include "codec/jpeg/libjpeg.h"

#include <string.h>

#include <jerror.h>

#include "base/alloc.h"
#include "codec/jpeg/markers.h"

/* ---- failures -------------------------------------------------------------------------------- */

static void jump(j_common_ptr cinfo)
{
    struct leat_jpeg_trouble *t = (struct leat_jpeg_trouble *)cinfo->err;
    cinfo->err->format_message(cinfo, t->words);
    longjmp(t->jump, 1);
}

const char *const leat_jpeg_warning_names[] = {"extraneous bytes",
                                               "premature end of file",
                                               "premature end of data",
                                               "bad code in the data",
                                               "missing or wrong restart markers",
                                               "inconsistent progression",
                                               "other",
                                               "wrong checksum",
                                               NULL};

static enum leat_jpeg_warning warning_of(int code)
{
    switch (code) {
    case JWRN_EXTRANEOUS_DATA:
        return LEAT_JPEG_EXTRANEOUS;
    case JWRN_JPEG_EOF:
        return LEAT_JPEG_FILE_ENDS;
    case JWRN_HIT_MARKER:
        return LEAT_JPEG_SEGMENT_ENDS;
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
        return LEAT_JPEG_BAD_CODE;
    case JWRN_MUST_RESYNC:
        return LEAT_JPEG_RESTARTS;
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_NOT_SEQUENTIAL:
        return LEAT_JPEG_PROGRESSION;
    default:
        return LEAT_JPEG_OTHER_WARNING;
    }
}

static void emit(j_common_ptr cinfo, int level)
{
    struct leat_jpeg_trouble *t = (struct leat_jpeg_trouble *)cinfo->err;
    if (level >= 0 || cinfo->err->msg_code == JWRN_JFIF_MAJOR)
        return;
    t->warned = !t->lenient;
    if (!t->lenient)
        jump(cinfo);
    t->warnings |= 1u << warning_of(cinfo->err->msg_code);
}

static void no_output(j_common_ptr cinfo) {}

struct jpeg_error_mgr *leat_jpeg_trouble_begin(struct leat_jpeg_trouble *trouble, bool lenient)
{
    struct jpeg_error_mgr *errors = jpeg_std_error(&trouble->errors);
    trouble->lenient = lenient;
    trouble->warnings = 0;
    trouble->warned = false;
    errors->error_exit = jump;
    errors->emit_message = emit;
    errors->output_message = no_output;
    return errors;
}

bool leat_jpeg_trouble_is_memory(const struct leat_jpeg_trouble *trouble)
{
    return trouble->errors.msg_code == JERR_OUT_OF_MEMORY || trouble->errors.msg_code == JERR_NO_BACKING_STORE;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void source_begin(j_decompress_ptr cinfo) {}

/* All bytes were there from the beginning: a reader that asks for more has found the photo cut off. A lenient reader
 * gets the end of the image in the place of missing bytes, as libjpeg's own sources give it. */
static boolean source_fill(j_decompress_ptr cinfo)
{
    static const JOCTET end[] = {0xff, JPEG_EOI};
    if (!((struct leat_jpeg_trouble *)cinfo->err)->lenient)
        ERREXIT(cinfo, JERR_INPUT_EOF);
    WARNMS(cinfo, JWRN_JPEG_EOF);
    cinfo->src->next_input_byte = end;
    cinfo->src->bytes_in_buffer = sizeof end;
    return TRUE;
}

static void source_skip(j_decompress_ptr cinfo, long bytes)
{
    if (bytes <= 0)
        return;
    while ((unsigned long)bytes > cinfo->src->bytes_in_buffer) {
        bytes -= (long)cinfo->src->bytes_in_buffer;
        source_fill(cinfo);
    }
    cinfo->src->next_input_byte += bytes;
    cinfo->src->bytes_in_buffer -= (size_t)bytes;
}

static void watch_scans(j_common_ptr common)
{
    j_decompress_ptr cinfo = (j_decompress_ptr)common;
    const uint64_t scans = (uint64_t)cinfo->input_scan_number;
    if (scans <= 16)
        return;
    if (scans > LEAT_JPEG_MAX_SCANS || scans * cinfo->image_width * cinfo->image_height > LEAT_JPEG_MAX_SCAN_PIXELS) {
        struct leat_jpeg_trouble *t = (struct leat_jpeg_trouble *)common->err;
        snprintf(t->words, sizeof t->words, "more scans than any encoder writes (scan %d)", cinfo->input_scan_number);
        longjmp(t->jump, 1);
    }
}

void leat_jpeg_input_begin(struct leat_jpeg_input *input, j_decompress_ptr cinfo, const void *data, size_t length)
{
    input->progress = (struct jpeg_progress_mgr){.progress_monitor = watch_scans};
    cinfo->progress = &input->progress;
    input->source = (struct jpeg_source_mgr){
        .next_input_byte = data,
        .bytes_in_buffer = length,
        .init_source = source_begin,
        .fill_input_buffer = source_fill,
        .skip_input_data = source_skip,
        .resync_to_restart = jpeg_resync_to_restart,
        .term_source = source_begin,
    };
    cinfo->src = &input->source;
}

static void output_room(j_compress_ptr cinfo, size_t room)
{
    struct leat_jpeg_output *o = (struct leat_jpeg_output *)cinfo->dest;
    uint8_t *bytes = room > o->room ? leat_realloc_array(o->bytes, room, 1) : NULL;
    if (room <= o->room)
        ERREXIT(cinfo, JERR_FILE_WRITE);
    if (!bytes)
        ERREXIT1(cinfo, JERR_OUT_OF_MEMORY, 0);
    o->bytes = bytes;
    o->manager.next_output_byte = bytes + o->room;
    o->manager.free_in_buffer = room - o->room;
    o->room = room;
}

static void output_begin(j_compress_ptr cinfo)
{
    output_room(cinfo, 65536);
}

static boolean output_full(j_compress_ptr cinfo)
{
    const struct leat_jpeg_output *o = (const struct leat_jpeg_output *)cinfo->dest;
    output_room(cinfo, o->room < o->limit / 2 ? 2 * o->room : o->limit);
    return TRUE;
}

static void output_end(j_compress_ptr cinfo)
{
    struct leat_jpeg_output *o = (struct leat_jpeg_output *)cinfo->dest;
    o->length = o->room - o->manager.free_in_buffer;
}

void leat_jpeg_output_begin(struct leat_jpeg_output *o, j_compress_ptr cinfo, size_t limit)
{
    *o = (struct leat_jpeg_output){.manager = {.init_destination = output_begin,
                                               .empty_output_buffer = output_full,
                                               .term_destination = output_end},
                                   .limit = limit};
    cinfo->dest = &o->manager;
}

/* ---- headers --------------------------------------------------------------------------------- */

bool leat_jpeg_promises_too_much(const struct jpeg_decompress_struct *cinfo, size_t length)
{
    if (cinfo->arith_code)
        return false;
    const jpeg_component_info *c = cinfo->comp_info;
    uint64_t across =
        ((uint64_t)cinfo->image_width * (unsigned)c->h_samp_factor) / ((unsigned)cinfo->max_h_samp_factor * 8u);
    uint64_t down =
        ((uint64_t)cinfo->image_height * (unsigned)c->v_samp_factor) / ((unsigned)cinfo->max_v_samp_factor * 8u);
    return across * down / 8 > length;
}

bool leat_jpeg_is_finished(const struct jpeg_decompress_struct *cinfo)
{
    for (int i = 0; cinfo->coef_bits && i < cinfo->num_components; i++)
        for (int k = 0; k < DCTSIZE2; k++)
            if (cinfo->coef_bits[i][k])
                return false;
    return true;
}
