/* SPDX-License-Identifier: MIT */
/* What was exported, as one JSON object. */
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "plimsoll/export.h"

static void add_source(plm_json_writer *writer, const plm_export_source *source)
{
    int64_t count;
    plm_trace_events(source->trace, &count);
    plm_trace_peak peak = plm_trace_find_peak(source->trace);
    plm__json_begin_object(writer, NULL);
    plm__json_text(writer, "name", source->name);
    plm__json_int(writer, "events", count);
    plm__json_int(writer, "peak_event", peak.event);
    plm__json_bytes(writer, "peak_bytes", peak.bytes_taken);
    plm__json_end(writer);
}

plm_status plm_export_json(const char *path, const char *form, const plm_export_source *sources,
                           int64_t count, char **line)
{
    plm_json_writer writer = {0};
    struct stat about;
    if (stat(path, &about) != 0)
        return plm__file_failed("find again", path);
    plm__json_begin_object(&writer, NULL);
    plm__json_text(&writer, "out", path);
    plm__json_text(&writer, "format", form);
    plm__json_bytes(&writer, "bytes", (size_t)about.st_size);
    plm__json_begin_array(&writer, "sources");
    for (int64_t i = 0; i < count; i++)
        add_source(&writer, &sources[i]);
    return plm__json_finish(&writer, line);
}
