/* SPDX-License-Identifier: MIT */
/*
 * The device that is not there, read from the file that PLIMSOLL_PHANTOM names: one `key value` a
 * line, written by `plimsoll forecast`. Every key but `opens` and `log` must be there and none may
 * be unknown: a forecast for a device that was guessed would be believed. The file is read once a
 * process, by the first thread that asks, who must not hold the process's lock.
 */
#include "phantom/phantom.h"
#include "phantom/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_BYTES = 16384 }; /* the longest configuration: 18 lines, one of them a path */

enum kind { TEXT, BYTES, NUMBER };

struct key {
    const char *name;
    enum kind kind;
    bool optional;
    size_t offset;
    size_t room_bytes; /* TEXT: with the NUL */
    uint64_t least, most;
};

#define PLACE(field)                                                                               \
    offsetof(struct plm_phantom_device, field), sizeof(((struct plm_phantom_device *)0)->field)
/* clang-format off */
#define COUNT(field) {#field, NUMBER, false, PLACE(field), 1, INT_MAX}
#define SIZE(field) {#field, BYTES, false, PLACE(field), 0, (uint64_t)1 << 46}
/* clang-format on */

static const struct key keys[] = {
    {"name", TEXT, false, PLACE(name), 0, 0},
    SIZE(memory_bytes),
    SIZE(context_bytes),
    COUNT(multiprocessors),
    COUNT(capability),
    COUNT(threads_per_multiprocessor),
    COUNT(blocks_per_multiprocessor),
    SIZE(shared_bytes_per_multiprocessor),
    SIZE(shared_bytes_per_block_optin),
    COUNT(registers_per_multiprocessor),
    SIZE(l2_bytes),
    COUNT(clock_khz),
    COUNT(memory_clock_khz),
    COUNT(bus_bits),
    {"devices", NUMBER, false, PLACE(devices), 1, PLM_PHANTOM_MAX_DEVICES},
    COUNT(driver),
    {"opens", NUMBER, true, PLACE(opens), 0, 1},
    {"log", TEXT, true, PLACE(log), 0, 0},
};
enum { KEY_COUNT = sizeof keys / sizeof keys[0] };

static struct plm_phantom_device device;
static bool known; /* the file was read; set last, under the process's lock */

/* The whole file into `text`, ended by a NUL. */
static void read_file(const char *path, char *text)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        plm__phantom_stop("wanted the device's description in %s (PLIMSOLL_PHANTOM), found: %s",
                          path, strerror(errno));
    ssize_t count = 0, got;
    while (count < FILE_BYTES && (got = read(file, text + count, (size_t)(FILE_BYTES - count))) > 0)
        count += got;
    close(file);
    if (count == FILE_BYTES)
        plm__phantom_stop("wanted a device's description of less than %d bytes in %s, found more",
                          FILE_BYTES, path);
    text[count] = '\0';
}

static const struct key *find_key(const char *name)
{
    for (int i = 0; i < KEY_COUNT; i++)
        if (!strcmp(keys[i].name, name))
            return &keys[i];
    return NULL;
}

static uint64_t read_number(const char *path, const struct key *key, const char *value)
{
    uint64_t number = 0;
    const char *at = value;
    for (; *at >= '0' && *at <= '9' && number <= key->most; at++)
        number = number * 10 + (uint64_t)(*at - '0');
    if (at == value || *at || number < key->least || number > key->most)
        plm__phantom_stop("wanted for %s in %s a whole number from %llu to %llu, found \"%s\"",
                          key->name, path, (unsigned long long)key->least,
                          (unsigned long long)key->most, value);
    return number;
}

static void set(const char *path, const struct key *key, const char *value)
{
    char *field = (char *)&device + key->offset;
    if (key->kind == TEXT) {
        size_t bytes = strlen(value) + 1;
        if (bytes == 1 || bytes > key->room_bytes)
            plm__phantom_stop("wanted for %s in %s a text of 1 to %zu bytes, found %zu", key->name,
                              path, key->room_bytes - 1, bytes - 1);
        memcpy(field, value, bytes);
    } else if (key->kind == BYTES) {
        *(size_t *)(void *)field = read_number(path, key, value);
    } else {
        *(int *)(void *)field = (int)read_number(path, key, value);
    }
}

/* One line, `key value`; the value goes on to the end of the line and may hold spaces. */
static void read_line(const char *path, char *line, bool *seen)
{
    if (!*line)
        return;
    char *space = strchr(line, ' ');
    if (space)
        *space = '\0';
    const struct key *key = find_key(line);
    if (!key)
        plm__phantom_stop("%s knows the device by keys that this library has, found \"%s\": "
                          "take library and command from one release",
                          path, line);
    set(path, key, space ? space + 1 : "");
    seen[key - keys] = true;
}

static void read_device(void)
{
    const char *path = getenv("PLIMSOLL_PHANTOM");
    if (!path || !*path)
        plm__phantom_stop("wanted PLIMSOLL_PHANTOM, the path of a device's description, found none:"
                          " run the script by `plimsoll forecast -- python train.py`");
    static char text[FILE_BYTES + 1];
    bool seen[KEY_COUNT] = {false};
    read_file(path, text);
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        read_line(path, line, seen);
    for (int i = 0; i < KEY_COUNT; i++)
        if (!seen[i] && !keys[i].optional)
            plm__phantom_stop("wanted the key %s in %s, found none", keys[i].name, path);
}

const struct plm_phantom_device *plm__phantom_device(void)
{
    if (!__atomic_load_n(&known, __ATOMIC_ACQUIRE)) {
        plm__phantom_lock();
        if (!known)
            read_device();
        __atomic_store_n(&known, true, __ATOMIC_RELEASE);
        plm__phantom_unlock();
    }
    return &device;
}
