/* The form of TGN (Rossi et al. 2020): ml_X.csv with the columns ",u,i,ts,label,idx", and beside it ml_X.npy, whose row
 * idx has the features of an event. events.h */
#include "format/events.h"

static bool recognise(const char *path, bool folder, const uint8_t *head, size_t n)
{
    return leat_events_recognise(LEAT_EVENTS_TGN, folder, head, n);
}

static int open_tgn(const char *path, const struct leat_open_options *options, struct leat_source **out,
                    struct leat_error *error)
{
    return leat_events_open(&leat_format_tgn, LEAT_EVENTS_TGN, path, options, out, error);
}

const struct leat_source_vtable leat_format_tgn = {
    .name = "tgn", .recognise = recognise, .open = open_tgn, LEAT_EVENTS_FUNCTIONS};
