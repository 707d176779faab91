/*
 * Packs a folder of photos into a file and takes one epoch of training batches from it: the whole path in C, over the
 * public header alone.
 *
 *     cc pack_and_iterate.c $(pkg-config --cflags --libs leat) -o pack_and_iterate
 *     ./pack_and_iterate photos/ photos.leat
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <leat/leat.h>

/* Decode, a random crop of 64 x 64, a flip with probability one half, then float32 around 0, channels first. */
static const char program[] =
    "{\"operators\": {"
    "   \"decode\": {\"type\": \"Decode\", \"mode\": \"RGB\"},"
    "   \"crop\": {\"type\": \"RandomResizedCrop\", \"size\": [64, 64]},"
    "   \"flip\": {\"type\": \"RandomHorizontalFlip\"},"
    "   \"normalize\": {\"type\": \"Normalize\", \"mean\": [0.485, 0.456, 0.406], \"std\": [0.229, 0.224, 0.225]}},"
    " \"outputs\": {"
    "   \"image\": {\"field\": \"image\", \"chain\": [\"decode\", \"crop\", \"flip\", \"normalize\"]}%s}}";

static const char label_output[] = ", \"label\": {\"field\": \"label\", \"chain\": []}";

static int say(const char *what, const struct leat_error *error)
{
    fprintf(stderr, "%s: %s\n", what, error->message);
    return 1;
}

static int find_field(const struct leat_dataset *dataset, const char *name)
{
    size_t n;
    const struct leat_field *fields = leat_dataset_fields(dataset, &n);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(fields[i].name, name))
            return (int)i;
    return -1;
}

/* Hands one photo of the folder to the writer: by its path, so that the writer's threads read it. */
static int add_photo(struct leat_writer *writer, const struct leat_dataset *folder, const char *path, uint64_t i,
                     struct leat_error *error)
{
    struct leat_value photo = {0}, label = {0}, name = {0};
    const int label_field = find_field(folder, "label");
    char *file = NULL;
    int rc = leat_dataset_read(folder, i, (size_t)find_field(folder, "name"), &name, error);
    if (!rc)
        rc = leat_dataset_read(folder, i, (size_t)find_field(folder, "image"), &photo, error);
    if (!rc && label_field >= 0)
        rc = leat_dataset_read(folder, i, (size_t)label_field, &label, error);
    if (!rc && (file = malloc(strlen(path) + (size_t)name.length + 2))) {
        struct leat_value_ref values[3];
        size_t n = 0;
        sprintf(file, "%s/%.*s", path, (int)name.length, (const char *)name.data);
        values[n++] = (struct leat_value_ref){.path = file, .length = photo.length};
        if (label_field >= 0)
            values[n++] = (struct leat_value_ref){.data = label.data, .length = label.length};
        values[n] = (struct leat_value_ref){.data = name.data, .length = name.length};
        rc = leat_writer_add(writer, values, NULL, error);
    }
    free(file);
    leat_value_clear(&photo);
    leat_value_clear(&label);
    leat_value_clear(&name);
    return rc;
}

static int pack(const char *source, const char *target)
{
    struct leat_error error;
    struct leat_dataset *folder;
    struct leat_writer *writer = NULL;
    struct leat_writer_options options = LEAT_WRITER_OPTIONS_INIT;
    if (leat_dataset_open(source, NULL, &folder, &error))
        return say(source, &error);

    /* The fields of the folder in their order, less those that the writer derives from the photos by itself. */
    struct leat_field fields[3];
    size_t n, n_fields = 0;
    const struct leat_field *all = leat_dataset_fields(folder, &n);
    static const char *const wanted[] = {"image", "label", "name"};
    for (size_t w = 0; w < 3; w++)
        if (find_field(folder, wanted[w]) >= 0)
            fields[n_fields++] = all[find_field(folder, wanted[w])];

    options.overwrite = true;
    options.classes = leat_dataset_classes(folder, &options.n_classes);
    int rc = leat_writer_open(target, fields, n_fields, &options, &writer, &error);
    for (uint64_t i = 0; i < leat_dataset_count(folder) && !rc; i++)
        rc = add_photo(writer, folder, source, i, &error);
    if (!rc)
        rc = leat_writer_finish(writer, &error);
    if (rc)
        say(target, &error);
    leat_writer_free(writer, false);
    leat_dataset_release(folder);
    return rc != 0;
}

/* One epoch in shuffled order. A training would hand `image.data` on; here its mean is printed. */
static int iterate(const char *path)
{
    struct leat_error error;
    struct leat_dataset *dataset;
    struct leat_loader *loader = NULL;
    struct leat_loader_options options = LEAT_LOADER_OPTIONS_INIT;
    struct leat_batch *batch;
    uint64_t iteration, samples = 0;
    char text[sizeof program + sizeof label_output];
    if (leat_dataset_open(path, NULL, &dataset, &error))
        return say(path, &error);
    snprintf(text, sizeof text, program, find_field(dataset, "label") >= 0 ? label_output : "");
    options.batch_size = 8;
    options.order = LEAT_ORDER_SHUFFLED;
    options.seed = 7;
    options.epochs = 1;
    options.on_error = LEAT_ON_ERROR_SKIP; /* a broken photo leaves its batch one row shorter */
    options.program = text;
    int rc = leat_loader_open(dataset, &options, &loader, &error);
    if (!rc)
        rc = leat_loader_start(loader, &iteration, &error);
    while (!rc && !(rc = leat_loader_next(loader, iteration, -1, &batch, &error))) {
        struct leat_tensor image;
        double sum = 0;
        leat_batch_tensor(batch, 0, &image);
        const int64_t elements = image.shape[0] * image.shape[1] * image.shape[2] * image.shape[3];
        for (int64_t i = 0; i < elements; i++)
            sum += (double)((const float *)image.data)[i];
        printf("step %" PRIu64 ": %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64 ", first id %" PRId64
               ", mean %.3f\n",
               leat_batch_step(batch), image.shape[0], image.shape[1], image.shape[2], image.shape[3],
               leat_batch_ids(batch)[0], sum / (double)elements);
        samples += leat_batch_rows(batch);
        leat_batch_free(batch);
    }
    if (rc == LEAT_E_END) {
        printf("%" PRIu64 " of %" PRIu64 " samples\n", samples, leat_dataset_count(dataset));
        rc = 0;
    } else {
        say(path, &error);
    }
    leat_loader_close(loader);
    leat_dataset_release(dataset);
    return rc != 0;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: pack_and_iterate FOLDER FILE\n");
        return 2;
    }
    return pack(argv[1], argv[2]) || iterate(argv[2]);
}
