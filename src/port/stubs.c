/* Stands in until the port is there. */
#include "base/error.h"
#include "leat/leat.h"

int leat_port_open(struct leat_loader *loader, const struct leat_port_options *options, struct leat_port **out,
                   struct leat_error *error)
{
    return leat_fail(error, LEAT_E_UNSUPPORTED, "ports are not there yet");
}

int leat_port_wait(struct leat_port *port, int64_t timeout_ms, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_UNSUPPORTED, "ports are not there yet");
}

void leat_port_close(struct leat_port *port) {}

int leat_port_stat(struct leat_port *port, char **json, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_UNSUPPORTED, "ports are not there yet");
}

int leat_ports(const char *folder, char **json, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_UNSUPPORTED, "ports are not there yet");
}

int leat_port_ask_stat(const char *folder, const char *name, char **json, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_UNSUPPORTED, "ports are not there yet");
}

int leat_port_stop(const char *folder, const char *name, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_UNSUPPORTED, "ports are not there yet");
}

int leat_attach(const struct leat_attach_options *options, struct leat_attached **out, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_UNSUPPORTED, "ports are not there yet");
}

void leat_attached_close(struct leat_attached *attached) {}

int leat_attached_start(struct leat_attached *attached, uint64_t *iteration, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_UNSUPPORTED, "ports are not there yet");
}

int leat_attached_next(struct leat_attached *attached, uint64_t iteration, int64_t timeout_ms, struct leat_batch **out,
                       struct leat_error *error)
{
    return leat_fail(error, LEAT_E_UNSUPPORTED, "ports are not there yet");
}

void leat_attached_interrupt(struct leat_attached *attached) {}

int leat_attached_set_epoch(struct leat_attached *attached, uint64_t epoch, bool *dropped, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_UNSUPPORTED, "ports are not there yet");
}

uint64_t leat_attached_epoch(const struct leat_attached *attached)
{
    return 0;
}

int leat_attached_steps(struct leat_attached *attached, uint64_t *steps, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_UNSUPPORTED, "ports are not there yet");
}

int leat_attached_state(struct leat_attached *attached, char **json, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_UNSUPPORTED, "ports are not there yet");
}

int leat_attached_load_state(struct leat_attached *attached, const char *json, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_UNSUPPORTED, "ports are not there yet");
}

int leat_attached_plan(struct leat_attached *attached, uint64_t epoch, uint64_t step, int64_t **ids, uint64_t *n,
                       struct leat_error *error)
{
    return leat_fail(error, LEAT_E_UNSUPPORTED, "ports are not there yet");
}

int leat_attached_batch_at(struct leat_attached *attached, uint64_t epoch, uint64_t step, struct leat_batch **out,
                           struct leat_error *error)
{
    return leat_fail(error, LEAT_E_UNSUPPORTED, "ports are not there yet");
}

int leat_attached_stats(const struct leat_attached *attached, char **json, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_UNSUPPORTED, "ports are not there yet");
}

const char *leat_attached_about(const struct leat_attached *attached)
{
    return "{}";
}
