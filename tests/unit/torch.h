/* SPDX-License-Identifier: MIT */
/* What the tests of PyTorch's files share: recordings as plain bytes, and reading from a text. */
#ifndef PLM_TEST_TORCH_H
#define PLM_TEST_TORCH_H

#include "unit/test.h"

#include "base/text.h"
#include "plimsoll/findings.h"
#include "torch/stream.h"

#define SNAPSHOTS PLM_SOURCE_DIR "/tests/data/snapshots/"

/* The decoded bytes of a file; to be freed with plm__text_fini. */
static inline plm_text read_plain(const char *path)
{
    plm_text plain = {0};
    plm_stream stream;
    assert_ok(plm__stream_open(path, &stream));
    for (;;) {
        assert_ok(plm__stream_fill(&stream, 1));
        if (plm__stream_left(&stream) == 0)
            break;
        plm__text_add_bytes(&plain, (const char *)stream.next, (int64_t)plm__stream_left(&stream));
        stream.next = stream.end;
    }
    plm__stream_close(&stream);
    assert_ok(plm__text_status(&plain));
    return plain;
}

static inline plm_snapshot *read_json(const char *text)
{
    plm_snapshot *snapshot = NULL;
    assert_ok(plm_snapshot_read_bytes("a text", text, strlen(text), &snapshot));
    return snapshot;
}

/* The first device of a snapshot, as replays and findings take it. */
static inline const plm_snapshot_device *first_device(const plm_snapshot *snapshot)
{
    int64_t count;
    const plm_snapshot_device *devices = plm_snapshot_devices(snapshot, &count);
    assert_true(count > 0);
    return devices;
}

/* Findings of the first device, with true bytes; a status, for tests that let memory run out. */
static inline plm_status find_in(plm_snapshot *snapshot, plm_findings_options options,
                                 plm_findings **findings)
{
    plm_replay_result replayed;
    plm_status status = plm_replay_fill_taken(snapshot, 0, &replayed);
    options.replayed = &replayed;
    return status ? status : plm_findings_create(first_device(snapshot), &options, findings);
}

/* The message of the last failure. */
static inline const char *last_message(plm_error *error)
{
    plm_error_get(error);
    return error->message;
}

#define assert_message_has(words)                                                                  \
    do {                                                                                           \
        plm_error error_;                                                                          \
        if (!strstr(last_message(&error_), (words)))                                               \
            fail_msg("wanted '%s' in: %s", (words), error_.message);                               \
    } while (0)

#endif
