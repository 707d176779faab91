/* The measurements, in words, or as JSON. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "doctor/doctor.h"
#include "print.h"

struct finding {
    const char *bottleneck;
    double need, supply; /* samples per second; INFINITY: the step is not known */
    double bytes_per_sample;
    const struct cli_remedy *remedy; /* NULL: none helps */
    double gain;                     /* of the training with it */
    char verdict[800], advice[2600];
};

const char *cli_doctor_rate(double rate, char out[32])
{
    char count[32];
    if (rate >= 100)
        snprintf(out, 32, "%s", cli_count((uint64_t)(rate + 0.5), count));
    else
        snprintf(out, 32, "%.1f", rate);
    return out;
}

static double part(const struct cli_doctor *doctor, double seconds)
{
    const double all = doctor->reading + doctor->decoding + doctor->transforms;
    return all > 0 ? seconds / all : 0;
}

static void write_verdict(const struct cli_doctor *doctor, struct finding *f)
{
    char supply[32], need[32], a[32], b[32];
    cli_doctor_rate(f->supply, supply);
    cli_doctor_rate(f->need, need);
    const unsigned threads = doctor->flat.threads;
    if (!strcmp(f->bottleneck, "consumer"))
        snprintf(f->verdict, sizeof f->verdict,
                 "The training is the limit: its steps take %s samples/s, and the loader can give %s on %u thread%s "
                 "(%.1f times as many). It waits for batches %.1f%% of the time.",
                 need, supply, threads, threads == 1 ? "" : "s", f->supply / f->need,
                 doctor->training.seconds > 0 ? 100 * doctor->training.waited / doctor->training.seconds : 0);
    else if (!strcmp(f->bottleneck, "window"))
        snprintf(
            f->verdict, sizeof f->verdict,
            "The window is the limit: the loader can give %s samples/s and %s are needed, but batches are not ready "
            "when they are asked for (%.0f%% of the time): some take much longer than others.",
            supply, need, 100 * doctor->training.waited / doctor->training.seconds);
    else if (!strcmp(f->bottleneck, "storage"))
        snprintf(
            f->verdict, sizeof f->verdict,
            "Storage is the limit: it gives %s/s, and %s per sample are read, because the data do not stay in memory.",
            cli_bytes((uint64_t)doctor->storage_rate, a), cli_bytes((uint64_t)f->bytes_per_sample, b));
    else if (!strcmp(f->bottleneck, "reading"))
        snprintf(f->verdict, sizeof f->verdict,
                 "Reading is the limit: threads spend %.0f%% of their time in it. The loader gives %s samples/s%s%s.",
                 100 * part(doctor, doctor->reading), supply, isinf(f->need) ? "" : ", and the training could take ",
                 isinf(f->need) ? "" : need);
    else if (!strcmp(f->bottleneck, "decoding"))
        snprintf(f->verdict, sizeof f->verdict,
                 "Decoding is the limit: threads spend %.0f%% of their time in it. The loader gives %s samples/s on %u "
                 "thread%s%s%s.",
                 100 * part(doctor, doctor->decoding), supply, threads, threads == 1 ? "" : "s",
                 isinf(f->need) ? "" : ", and the training could take ", isinf(f->need) ? "" : need);
    else
        snprintf(f->verdict, sizeof f->verdict,
                 "Transforms are the limit: threads spend %.0f%% of their time in them, %.0f%% in %s. The loader gives "
                 "%s samples/s on %u thread%s%s%s.",
                 100 * part(doctor, doctor->transforms), 100 * part(doctor, doctor->slowest_seconds), doctor->slowest,
                 supply, threads, threads == 1 ? "" : "s", isinf(f->need) ? "" : ", and the training could take ",
                 isinf(f->need) ? "" : need);
}

/* The present rate of the training, samples per second. */
static double rate_now(const struct cli_doctor *doctor, const struct finding *f)
{
    return fmin(f->need, doctor->training.seconds > 0 ? cli_rate(&doctor->training) : f->supply);
}

/* The remedy that makes the training fastest; none if that is not 5% faster. */
static void choose(const struct cli_doctor *doctor, struct finding *f)
{
    const double now = rate_now(doctor, f);
    f->gain = 1;
    for (size_t i = 0; i < doctor->n_tried; i++) {
        const struct cli_remedy *remedy = &doctor->tried[i];
        const bool of_training = !strcmp(remedy->name, "budget_bytes");
        const double ratio = remedy->without > 0 ? remedy->rate / remedy->without : 1;
        const double gain = of_training ? ratio : fmin(f->need, now * ratio) / now;
        if (gain > 1.05 && gain > f->gain * 1.02) {
            f->remedy = remedy;
            f->gain = gain;
        }
    }
}

static void write_advice(const struct cli_doctor *doctor, struct finding *f)
{
    char before[32], after[32];
    const double now = rate_now(doctor, f);
    if (f->remedy) {
        const bool enough = f->gain * now >= 0.99 * f->need;
        snprintf(f->advice, sizeof f->advice,
                 "Change this: %s. Expected: %s instead of %s samples/s, %.2f times as many%s.", f->remedy->how,
                 cli_doctor_rate(now * f->gain, after), cli_doctor_rate(now, before), f->gain,
                 enough ? "; then the training is the limit" : "");
    } else if (!strcmp(f->bottleneck, "consumer")) {
        const double threads = ceil(f->need / f->supply * doctor->flat.threads * 1.25);
        if (threads < doctor->flat.threads)
            snprintf(f->advice, sizeof f->advice,
                     "Nothing in the loader makes it faster. num_threads=%.0f would do, and leave cores to the rest.",
                     threads);
        else
            snprintf(f->advice, sizeof f->advice, "Nothing in the loader makes it faster.");
    } else if (!strcmp(f->bottleneck, "storage")) {
        snprintf(
            f->advice, sizeof f->advice,
            "No setting of the loader helps: photos resized when they are packed (leat pack --max-side) have fewer "
            "bytes, and a local disk gives them faster.");
    } else {
        snprintf(f->advice, sizeof f->advice,
                 "No setting that was tried makes it 5%% faster. More cores do: each gives some %s samples/s.",
                 cli_doctor_rate(f->supply / fmin(doctor->flat.threads, doctor->cores), after));
    }
}

static void print_json(const struct cli_doctor *doctor, const struct finding *f)
{
    json_t *steps = json_object(), *tried = json_array();
    for (size_t i = 0; i < doctor->flat.n_steps; i++)
        json_object_set_new(steps, doctor->flat.steps[i].name, json_real(doctor->flat.steps[i].seconds));
    for (size_t i = 0; i < doctor->n_tried; i++) {
        const struct cli_remedy *r = &doctor->tried[i];
        json_array_append_new(tried, json_pack("{ss ss sf sf}", "setting", r->name, "how", r->how, "samples_per_second",
                                               r->rate, "samples_per_second_without", r->without));
    }
    cli_print_json(
        json_pack("{so? ss sI sI so so sf so so sf sf so so ss so sf so ss ss}", "path", cli_json_text(doctor->path),
                  "program", doctor->program_name ? doctor->program_name : "as stored", "batch_size",
                  (json_int_t)doctor->batch_size, "threads", (json_int_t)doctor->flat.threads, "step_ms",
                  doctor->step_ms > 0 ? json_real(doctor->step_ms) : json_null(), "needed_per_second",
                  isinf(f->need) ? json_null() : json_real(f->need), "delivered_per_second", f->supply,
                  "thread_seconds", steps, "shares",
                  json_pack("{sf sf sf}", "reading", part(doctor, doctor->reading), "decoding",
                            part(doctor, doctor->decoding), "transforms", part(doctor, doctor->transforms)),
                  "bytes_read_per_sample", f->bytes_per_sample, "bytes", (double)doctor->bytes,
                  "storage_bytes_per_second", doctor->storage_rate > 0 ? json_real(doctor->storage_rate) : json_null(),
                  "cached", doctor->cached >= 0 ? json_real(doctor->cached) : json_null(), "bottleneck", f->bottleneck,
                  "setting", f->remedy ? json_string(f->remedy->name) : json_null(), "gain", f->gain, "tried", tried,
                  "verdict", f->verdict, "advice", f->advice));
}

void cli_doctor_print(const char *text)
{
    while (*text) {
        size_t length = strlen(text);
        if (length > 100)
            for (length = 100; length > 1 && text[length] != ' ';)
                length--;
        printf("%.*s\n", (int)length, text);
        text += length;
        text += strspn(text, " ");
    }
}

static void print_person(const struct cli_doctor *doctor, const struct finding *f)
{
    char a[32], b[32], path[1200];
    printf("%s: batches of %llu, %s\n\n", leat_escape(doctor->path, path, sizeof path),
           (unsigned long long)doctor->batch_size, doctor->program_name ? doctor->program_name : "as stored");
    if (doctor->storage_rate > 0)
        printf("storage       %s/s around the page cache; %s per sample are read\n",
               cli_bytes((uint64_t)doctor->storage_rate, a), cli_bytes((uint64_t)f->bytes_per_sample, b));
    else
        printf("storage       its speed cannot be measured here; %s per sample are read\n",
               cli_bytes((uint64_t)f->bytes_per_sample, b));
    if (doctor->cached >= 0)
        printf("              %.0f%% of the data looked at are in the page cache now%s\n", 100 * doctor->cached,
               cli_doctor_reads_storage(doctor) ? ", but not all fit" : "");
    const double samples = fmax((double)doctor->flat.samples, 1);
    printf("loader        %s samples/s on %u thread%s, batches dropped at once\n", cli_doctor_rate(f->supply, a),
           doctor->flat.threads, doctor->flat.threads == 1 ? "" : "s");
    for (size_t i = 0; i < doctor->flat.n_steps; i++)
        if (doctor->flat.steps[i].seconds > 0)
            printf("              %8.3f ms per sample  %s\n", doctor->flat.steps[i].seconds * 1e3 / samples,
                   doctor->flat.steps[i].name);
    if (doctor->step_ms > 0)
        printf("training      %s samples/s with steps of %g ms alone; %s with the loader, waiting %.1f%% of the time\n",
               cli_doctor_rate(f->need, a), doctor->step_ms, cli_doctor_rate(cli_rate(&doctor->training), b),
               doctor->training.seconds > 0 ? 100 * doctor->training.waited / doctor->training.seconds : 0);
    for (size_t i = 0; i < doctor->n_tried; i++) {
        const struct cli_remedy *r = &doctor->tried[i];
        printf("%-13s %s instead of %s samples/s with %s\n", i ? "" : "tried", cli_doctor_rate(r->rate, a),
               cli_doctor_rate(r->without, b), r->option);
    }
    putchar('\n');
    cli_doctor_print(f->verdict);
    cli_doctor_print(f->advice);
    if (!cli_doctor_reads_storage(doctor) && doctor->storage_rate > 0 && f->bytes_per_sample > 0 &&
        doctor->storage_rate / f->bytes_per_sample < fmin(f->need, f->supply))
        printf("The first epoch reads from storage, at %s samples/s; later ones from memory.\n",
               cli_doctor_rate(doctor->storage_rate / f->bytes_per_sample, a));
}

void cli_doctor_report(const struct cli_doctor *doctor)
{
    struct finding f = {.bottleneck = cli_doctor_bottleneck(doctor),
                        .need = cli_doctor_need(doctor),
                        .supply = cli_rate(&doctor->flat)};
    f.bytes_per_sample = cli_doctor_bytes_per_sample(doctor);
    choose(doctor, &f);
    write_verdict(doctor, &f);
    write_advice(doctor, &f);
    if (doctor->json)
        print_json(doctor, &f);
    else
        print_person(doctor, &f);
}
