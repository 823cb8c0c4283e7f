/* SPDX-License-Identifier: MIT */
/* plimsoll snapshot: what a recorded memory of PyTorch says, and what to do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "plimsoll/report_torch.h"
#include "plimsoll/size.h"

enum { DEVICES_MAX = 64, PATH_BYTES = 4096 };

typedef struct snapshot_settings {
    size_t capacity_bytes;
    size_t fail_over_bytes;
    int64_t rows;
    bool diff;
    bool json;
} snapshot_settings;

static const plm_option options[] = {
    {"capacity", PLM_OPTION_SIZE, offsetof(snapshot_settings, capacity_bytes), "SIZE", NULL, NULL,
     "memory of the device, which no snapshot tells; default: from the record NAME.json beside "
     "NAME.pickle",
     NULL},
    {"diff", PLM_OPTION_FLAG, offsetof(snapshot_settings, diff), NULL, NULL, NULL,
     "tell what changed from the first file to the second", NULL},
    {"fail-over", PLM_OPTION_SIZE, offsetof(snapshot_settings, fail_over_bytes), "SIZE", NULL, NULL,
     "exit with status 1 when more than this was reserved at the peak", NULL},
    {"rows", PLM_OPTION_COUNT, offsetof(snapshot_settings, rows), "N", "12", NULL,
     "lines of each table", NULL},
    {"json", PLM_OPTION_FLAG, offsetof(snapshot_settings, json), NULL, NULL, NULL,
     "print one JSON object on one line", NULL},
};

static const plm_syntax syntax = {
    .command = "plimsoll snapshot",
    .summary = "Explains memory that PyTorch recorded: who holds it at the peak, what leaks, what "
               "is cached and pinned, and why a request failed. FILE is what "
               "torch.cuda.memory._dump_snapshot wrote, memory_stats() as JSON, or a trace of "
               "torch.profiler; .xz, .zst and .gz are read as they are. Several files are ranks of "
               "one run.",
    .operands = "FILE...",
    .operands_least = 1,
    .operands_most = PLM_OPERANDS_MAX,
    CLI_OPTIONS(options),
    .example = "plimsoll snapshot rank0.pickle --capacity 80GiB\n"
               "  plimsoll snapshot rank*.pickle\n"
               "  plimsoll snapshot before.pickle after.pickle --diff\n"
               "  plimsoll snapshot step.pickle.xz --fail-over 20GiB",
};

/* Everything that was read. */
typedef struct gathered {
    plm_snapshot *snapshots[PLM_OPERANDS_MAX];
    int snapshot_count;
    plm_findings *findings[DEVICES_MAX];
    plm_checklist *lists[DEVICES_MAX];
    plm_rank ranks[DEVICES_MAX];
    int64_t count;
} gathered;

static void gathered_free(gathered *all)
{
    for (int64_t i = 0; i < all->count; i++) {
        plm_checklist_destroy(all->lists[i]);
        plm_findings_destroy(all->findings[i]);
    }
    for (int i = 0; i < all->snapshot_count; i++)
        plm_snapshot_destroy(all->snapshots[i]);
}

/* ---- the record beside a snapshot ---- */

/* NAME.json for NAME.pickle, NAME.pickle.xz, ...; false when the name is of another form. */
static bool record_path(const char *path, char record[PATH_BYTES])
{
    const char *name = cli_file_name(path);
    const char *end = strstr(name, ".pickle");
    if (!end || (size_t)(end - path) + sizeof ".json" > PATH_BYTES)
        return false;
    snprintf(record, PATH_BYTES, "%.*s.json", (int)(end - path), path);
    return true;
}

/* What the record beside a file says of a device, zeros when there is none; one that cannot be read
 * is said. */
static plm_memory_record find_record(const char *path, int32_t device)
{
    char beside[PATH_BYTES];
    plm_memory_record record = {0};
    FILE *file = record_path(path, beside) ? fopen(beside, "rb") : NULL;
    if (!file)
        return record;
    fclose(file);
    if (plm_memory_record_read(beside, device, &record) != PLM_OK) {
        plm_error error;
        plm_error_get(&error);
        fprintf(stderr, "plimsoll: passed over: %s\n", error.message);
    }
    return record;
}

/* ---- reading ---- */

/* The number after "rank" in a file's name, else its place on the line. */
static int64_t rank_of(const char *path, int64_t place)
{
    const char *found = strstr(cli_file_name(path), "rank");
    if (!found)
        return place;
    found += strspn(found, "rank_-");
    char *end;
    long number = strtol(found, &end, 10);
    return end > found && number >= 0 ? number : place;
}

static plm_status add_devices(gathered *all, const char *path, int64_t place, size_t capacity)
{
    plm_snapshot *snapshot = NULL;
    int64_t count;
    plm_status status = plm_snapshot_read(path, &snapshot);
    if (status != PLM_OK)
        return status;
    all->snapshots[all->snapshot_count++] = snapshot;
    const plm_snapshot_device *devices = plm_snapshot_devices(snapshot, &count);
    for (int64_t i = 0; i < count && all->count < DEVICES_MAX; i++) {
        plm_memory_record record = find_record(path, devices[i].device);
        plm_replay_result replayed;
        plm_findings_options wanted = {
            .capacity_bytes = capacity, .record = &record, .replayed = &replayed};
        status = plm_replay_fill_taken(snapshot, i, &replayed);
        if (status == PLM_OK)
            status = plm_findings_create(&devices[i], &wanted, &all->findings[all->count]);
        if (status != PLM_OK)
            return status;
        all->ranks[all->count] = (plm_rank){
            .name = cli_file_name(path),
            .rank = rank_of(path, place),
            .findings = all->findings[all->count],
        };
        status = plm_checklist_create(all->findings[all->count], &all->lists[all->count]);
        all->ranks[all->count].checklist = all->lists[all->count];
        all->count++;
        if (status != PLM_OK)
            return status;
    }
    return PLM_OK;
}

/* ---- printing ---- */

static plm_status print_findings(const gathered *all, const snapshot_settings *settings)
{
    char *text = NULL;
    plm_report_style style = cli_style(settings->rows);
    plm_status status;
    if (settings->diff)
        status = settings->json
                     ? plm_report_difference_json(&all->ranks[0], &all->ranks[1], &text)
                     : plm_report_difference_text(&all->ranks[0], &all->ranks[1], style, &text);
    else
        status = settings->json ? plm_report_snapshot_json(all->ranks, all->count, &text)
                                : plm_report_snapshot_text(all->ranks, all->count, style, &text);
    return cli_print(status, text, settings->json);
}

static plm_status print_stats(const char *path, const snapshot_settings *settings, size_t *reserved)
{
    plm_memory_stats stats;
    char *text = NULL;
    const char *name = cli_file_name(path);
    plm_status status = plm_memory_stats_read(path, &stats);
    if (status == PLM_OK)
        status = settings->json
                     ? plm_report_stats_json(name, &stats, &text)
                     : plm_report_stats_text(name, &stats, cli_style(settings->rows), &text);
    if (status == PLM_OK) {
        int64_t peak = stats.stats[PLM_MEMORY_STAT_RESERVED_BYTES][PLM_MEMORY_POOL_ALL].peak;
        *reserved = peak > 0 ? (size_t)peak : 0;
    }
    return cli_print(status, text, settings->json);
}

static plm_status print_profile(const char *path, const snapshot_settings *settings,
                                size_t *reserved)
{
    plm_torch_profile *profile = NULL;
    char *text = NULL;
    const char *name = cli_file_name(path);
    plm_status status = plm_torch_profile_read(path, &profile);
    if (status == PLM_OK) {
        *reserved = profile->reserved_peak_bytes;
        status = settings->json ? plm_report_torch_profile_json(name, profile, &text)
                                : plm_report_torch_profile_text(name, profile,
                                                                cli_style(settings->rows), &text);
    }
    plm_torch_profile_destroy(profile);
    return cli_print(status, text, settings->json);
}

static plm_status print_snapshots(const plm_operands *operands, const snapshot_settings *settings,
                                  size_t *reserved, bool *nothing)
{
    gathered all = {.count = 0};
    plm_status status = PLM_OK;
    for (int i = 0; i < operands->count && status == PLM_OK; i++)
        status = add_devices(&all, operands->items[i], i, settings->capacity_bytes);
    *nothing = all.count == 0 || (settings->diff && all.count != 2);
    if (status == PLM_OK && !*nothing)
        status = print_findings(&all, settings);
    for (int64_t i = 0; i < all.count; i++) {
        const plm_findings *findings = all.ranks[i].findings;
        size_t peak = findings->reserved_peak_bytes;
        peak = peak > findings->device->reserved_bytes ? peak : findings->device->reserved_bytes;
        *reserved = peak > *reserved ? peak : *reserved;
    }
    gathered_free(&all);
    return status;
}

int cmd_snapshot(int argc, char **argv)
{
    snapshot_settings settings;
    plm_operands operands;
    plm_torch_file kind = PLM_TORCH_SNAPSHOT;
    size_t reserved = 0;
    bool nothing = false;
    int exit_status;
    if (!cli_parse(&syntax, argc, argv, &settings, &operands, &exit_status))
        return exit_status;
    if (settings.diff && operands.count != 2)
        return cli_wrong("--diff compares two files, found %d", operands.count);
    plm_status status = PLM_OK;
    if (operands.count == 1)
        status = plm_torch_file_kind(operands.items[0], &kind);
    if (status == PLM_OK && kind == PLM_TORCH_STATS)
        status = print_stats(operands.items[0], &settings, &reserved);
    else if (status == PLM_OK && kind == PLM_TORCH_PROFILE)
        status = print_profile(operands.items[0], &settings, &reserved);
    else if (status == PLM_OK)
        status = print_snapshots(&operands, &settings, &reserved, &nothing);
    if (status != PLM_OK)
        return cli_finish(status);
    if (nothing)
        return cli_wrong(settings.diff ? "--diff compares files of one device each"
                                       : "the file tells of no device: no memory was in use and "
                                         "nothing was recorded");
    if (settings.fail_over_bytes > 0 && reserved > settings.fail_over_bytes) {
        char peak[PLM_SIZE_TEXT], limit[PLM_SIZE_TEXT];
        fflush(stdout);
        cli_wrong("%s were reserved, more than the %s of --fail-over",
                  plm_size_format(reserved, peak),
                  plm_size_format(settings.fail_over_bytes, limit));
        return CLI_NO;
    }
    return CLI_DONE;
}
