/* The form of JODIE (Kumar et al. 2019): "user,item,time,label,features", users and items numbered apart. Items follow
 * users: dst is item + the number of users. events.h */
#include "format/events.h"

static bool recognise(const char *path, bool folder, const uint8_t *head, size_t n)
{
    return leat_events_recognise(LEAT_EVENTS_JODIE, folder, head, n);
}

static int open_jodie(const char *path, const struct leat_open_options *options, struct leat_source **out,
                      struct leat_error *error)
{
    return leat_events_open(&leat_format_jodie, LEAT_EVENTS_JODIE, path, options, out, error);
}

const struct leat_source_vtable leat_format_jodie = {
    .name = "jodie", .recognise = recognise, .open = open_jodie, LEAT_EVENTS_FUNCTIONS};
