/* SPDX-License-Identifier: MIT */
/*
 * A private view of the file system. In a mount namespace of its own, and a user namespace where
 * the user is not root, every mount that could be written is covered by an overlay whose upper
 * layer lies in the room; files that are mounted by themselves, and what cannot be written, are
 * mounted again as they are, and the folders that are kept last of all. The list is made before the
 * fork; behind it stand system calls alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "script/script.h"

enum {
    MOUNT_FIELDS = 6,
    NUMBER_TEXT = 96,
    KEPT_MAX = 16,
    OPEN_FOLDERS = 32,
    MOUNT_LINE_TEXT = 16384
};

static const char memory_name[] = "memory";

bool plm__path_lies_in(const char *path, const char *folder)
{
    const size_t length = strlen(folder);
    return strcmp(folder, "/") == 0 ||
           (strncmp(path, folder, length) == 0 && (!path[length] || path[length] == '/'));
}

/* Places where nobody keeps work: the kernel's own. */
static bool is_kernels(const char *path)
{
    static const char *const folders[] = {"/proc", "/sys", "/dev", "/run"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (plm__path_lies_in(path, folders[i]))
            return true;
    return false;
}

static int64_t find_covered(const plm_cover *cover, const char *path)
{
    int64_t i = 0;
    while (i < cover->folders.count && strcmp(cover->folders.items[i].path, path) != 0)
        i++;
    return i;
}

static plm_status add_covered(plm_cover *cover, const char *path, bool diverted)
{
    if (find_covered(cover, path) < cover->folders.count)
        return PLM_OK; /* mounted twice: the upper one is seen */
    PLM_FAIL_IF(cover->folders.count == PLM_COVER_MAX, PLM_ERROR_UNSUPPORTED,
                "more than %d file systems are mounted", PLM_COVER_MAX);
    char *copy = NULL;
    PLM_TRY(plm__host_alloc(strlen(path) + 1, &copy));
    memcpy(copy, path, strlen(path) + 1);
    plm_status status =
        PLM_ARRAY_PUSH(&cover->folders, ((plm_covered){.path = copy, .diverted = diverted}));
    if (status != PLM_OK)
        plm__host_free(copy);
    return status;
}

/* "\040" in /proc's listings is a blank. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from; to++) {
        if (from[0] == '\\' && from[1] && from[2] && from[3]) {
            *to = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

/* A line "27 1 254:0 / /mnt ro,nosuid ...": its fifth field is where, its sixth how. */
static plm_status add_mount(plm_cover *cover, char *line)
{
    char *fields[MOUNT_FIELDS], *rest = line;
    for (int i = 0; i < MOUNT_FIELDS; i++)
        if (!(fields[i] = strsep(&rest, " ")))
            return PLM_OK;
    unescape(fields[4]);
    struct stat status;
    if (strcmp(fields[4], "/") == 0 || is_kernels(fields[4]) || stat(fields[4], &status) != 0)
        return PLM_OK;
    const bool can_be_written = strncmp(fields[5], "rw", 2) == 0;
    return add_covered(cover, fields[4], S_ISDIR(status.st_mode) && can_be_written);
}

static plm_status add_mounts(plm_cover *cover)
{
    FILE *file = fopen("/proc/self/mountinfo", "r");
    PLM_FAIL_IF(!file, PLM_ERROR_UNSUPPORTED, "/proc/self/mountinfo cannot be read");
    char line[MOUNT_LINE_TEXT];
    plm_status status = PLM_OK;
    while (status == PLM_OK && fgets(line, sizeof line, file))
        status = add_mount(cover, line);
    fclose(file);
    return status;
}

typedef struct root_walk {
    plm_cover *cover;
    plm_status status;
} root_walk;

/* The root itself cannot be covered from within; what lies in it can. */
static void add_root_folder(const char *name, void *user)
{
    root_walk *walk = user;
    char path[300];
    struct stat status;
    snprintf(path, sizeof path, "/%s", name);
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return;
    if (walk->status == PLM_OK && lstat(path, &status) == 0 && S_ISDIR(status.st_mode) &&
        !is_kernels(path))
        walk->status = add_covered(walk->cover, path, true);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const plm_covered *)a)->path, ((const plm_covered *)b)->path);
}

static plm_status list_folders(plm_cover *cover)
{
    root_walk walk = {.cover = cover};
    PLM_TRY(add_mounts(cover));
    PLM_TRY(plm__folder_each("/", add_root_folder, &walk));
    PLM_TRY(walk.status);
    if (is_kernels(cover->folder)) /* work in /dev/shm */
        PLM_TRY(add_covered(cover, cover->folder, true));
    qsort(cover->folders.items, (size_t)cover->folders.count, sizeof *cover->folders.items,
          by_path);
    return PLM_OK;
}

plm_status plm__cover_init(plm_cover *cover, const char *folder, const char *room,
                           char *const *kept)
{
    *cover = (plm_cover){.folders = {0}};
    PLM_FAIL_IF(strlen(folder) >= sizeof cover->folder || strlen(room) >= sizeof cover->room,
                PLM_ERROR_UNSUPPORTED, "the path of the working directory is too long");
    snprintf(cover->folder, sizeof cover->folder, "%s", folder);
    snprintf(cover->room, sizeof cover->room, "%s", room);
    plm_status status = plm__words_add(&cover->kept, kept);
    if (status == PLM_OK && cover->kept.count > KEPT_MAX)
        status = plm_fail(PLM_ERROR_UNSUPPORTED, "more than %d folders are kept", KEPT_MAX);
    if (status == PLM_OK)
        status = list_folders(cover);
    if (status != PLM_OK)
        plm__cover_fini(cover);
    return status;
}

plm_status plm__cover_narrow(plm_cover *cover)
{
    PLM_TRY(add_covered(cover, cover->folder, true));
    qsort(cover->folders.items, (size_t)cover->folders.count, sizeof *cover->folders.items,
          by_path);
    return PLM_OK;
}

void plm__cover_fini(plm_cover *cover)
{
    for (int64_t i = 0; i < cover->folders.count; i++)
        plm__host_free(cover->folders.items[i].path);
    PLM_ARRAY_FREE(&cover->folders);
    plm__words_free(&cover->kept);
}

/* ---- behind the fork: system calls alone ---- */

static int write_line(const char *path, const char *line)
{
    const int descriptor = open(path, O_WRONLY | O_CLOEXEC);
    if (descriptor < 0)
        return errno;
    const ssize_t written = write(descriptor, line, strlen(line));
    const int error = written < 0 ? errno : 0;
    close(descriptor);
    return error;
}

/* A namespace in which this user may mount: root's own, else one in which the user stays who it
 * is. */
static int enter_namespaces(void)
{
    const long user = (long)geteuid(), group = (long)getegid();
    char line[64];
    if (user == 0 && unshare(CLONE_NEWNS) == 0)
        return 0;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return errno;
    snprintf(line, sizeof line, "%ld %ld 1", user, user);
    int error = write_line("/proc/self/uid_map", line);
    if (!error)
        error = write_line("/proc/self/setgroups", "deny");
    snprintf(line, sizeof line, "%ld %ld 1", group, group);
    return error ? error : write_line("/proc/self/gid_map", line);
}

/* Makes what is mounted there unwritable. Flags that a user namespace may not take away are named
 * again. */
static int close_mount(const char *path)
{
    struct statvfs about;
    if (statvfs(path, &about) != 0)
        return errno;
    unsigned long flags = MS_REMOUNT | MS_BIND | MS_RDONLY;
    flags |= about.f_flag & ST_NODEV ? MS_NODEV : 0;
    flags |= about.f_flag & ST_NOSUID ? MS_NOSUID : 0;
    flags |= about.f_flag & ST_NOEXEC ? MS_NOEXEC : 0;
    flags |= about.f_flag & ST_NOATIME ? MS_NOATIME : 0;
    flags |= about.f_flag & ST_RELATIME ? MS_RELATIME : 0;
    return mount(NULL, path, NULL, flags, NULL) == 0 ? 0 : errno;
}

static int bind_descriptor(int descriptor, const char *path, bool unwritable)
{
    char source[NUMBER_TEXT];
    snprintf(source, sizeof source, "/proc/self/fd/%d", descriptor);
    if (mount(source, path, NULL, MS_BIND | MS_REC, NULL) != 0)
        return errno;
    return unwritable ? close_mount(path) : 0;
}

/* Where overlays may keep what is written: folders by descriptor, for paths change their meaning on
 * the way. */
typedef struct cover_rooms {
    int disk;   /* the room itself */
    int memory; /* a file system in memory over a folder of it; -1: none could be had */
} cover_rooms;

/* Mounts the overlay; in a user namespace it must keep its notes in attributes of the user's. */
static int overlay_in(int room, int descriptor, const char *path, int64_t number)
{
    char upper[NUMBER_TEXT], work[NUMBER_TEXT], options[4 * NUMBER_TEXT];
    struct stat status;
    if (room < 0)
        return ENOENT;
    snprintf(upper, sizeof upper, "%lldu", (long long)number);
    snprintf(work, sizeof work, "%lldw", (long long)number);
    if ((mkdirat(room, upper, S_IRWXU) != 0 || mkdirat(room, work, S_IRWXU) != 0) &&
        errno != EEXIST)
        return errno;
    if (fstat(descriptor, &status) == 0) /* a folder that all may write stays one: /tmp */
        (void)fchmodat(room, upper, status.st_mode & 07777, 0);
    snprintf(options, sizeof options,
             "userxattr,lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d/%s,"
             "workdir=/proc/self/fd/%d/%s",
             descriptor, room, upper, room, work);
    if (mount("overlay", path, "overlay", 0, options + strlen("userxattr,")) == 0)
        return 0;
    return mount("overlay", path, "overlay", 0, options) == 0 ? 0 : errno;
}

/* Whether the program works there, and in no covered folder further in. */
static bool is_workplace(const plm_cover *cover, const char *path)
{
    if (!plm__path_lies_in(cover->folder, path))
        return false;
    for (int64_t i = 0; i < cover->folders.count; i++) {
        const plm_covered *other = &cover->folders.items[i];
        if (other->diverted && strlen(other->path) > strlen(path) &&
            plm__path_lies_in(cover->folder, other->path))
            return false;
    }
    return true;
}

/*
 * One folder: an overlay whose upper layer lies on the disk, or in memory where the disk's file
 * system cannot serve or the room lies in the folder itself. A folder that cannot have one is made
 * unwritable, unless the program works there.
 */
static int cover_one(const plm_cover *cover, int64_t number, int descriptor, cover_rooms rooms)
{
    const plm_covered *folder = &cover->folders.items[number];
    if (descriptor < 0)
        return 0; /* not even to be looked at: nothing can be written there */
    if (!folder->diverted)
        return bind_descriptor(descriptor, folder->path, false);
    int error = ELOOP;
    if (!plm__path_lies_in(cover->room, folder->path))
        error = overlay_in(rooms.disk, descriptor, folder->path, number);
    if (error)
        error = overlay_in(rooms.memory, descriptor, folder->path, number);
    if (!error || is_workplace(cover, folder->path))
        return error;
    return bind_descriptor(descriptor, folder->path, true);
}

/* A file system in memory over ROOM/memory, by descriptor. */
static int open_memory(int disk)
{
    if (mkdirat(disk, memory_name, S_IRWXU) != 0 && errno != EEXIST)
        return -1;
    char path[NUMBER_TEXT];
    snprintf(path, sizeof path, "/proc/self/fd/%d/%s", disk, memory_name);
    if (mount("tmpfs", path, "tmpfs", 0, "mode=700") != 0)
        return -1;
    return openat(disk, memory_name, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
}

static int cover_all(const plm_cover *cover, cover_rooms rooms)
{
    int descriptors[PLM_COVER_MAX], kept[KEPT_MAX], error = 0;
    for (int64_t i = 0; i < cover->folders.count; i++) /* before anything covers it */
        descriptors[i] = open(cover->folders.items[i].path, O_PATH | O_CLOEXEC);
    for (int64_t i = 0; i < cover->kept.count; i++)
        kept[i] = open(cover->kept.items[i], O_PATH | O_CLOEXEC);
    for (int64_t i = 0; i < cover->folders.count && !error; i++)
        error = cover_one(cover, i, descriptors[i], rooms);
    for (int64_t i = 0; i < cover->kept.count && !error; i++)
        if (kept[i] >= 0)
            error = bind_descriptor(kept[i], cover->kept.items[i], false);
    if (!error && access("/", W_OK) == 0) /* files that stand in the root itself */
        error = close_mount("/");
    for (int64_t i = 0; i < cover->folders.count; i++)
        close(descriptors[i]);
    for (int64_t i = 0; i < cover->kept.count; i++)
        close(kept[i]);
    return error;
}

int plm__cover_enter(const plm_cover *cover, int *memory)
{
    int error = enter_namespaces();
    if (error)
        return error;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return errno;
    cover_rooms rooms = {.disk = open(cover->room, O_DIRECTORY | O_RDONLY | O_CLOEXEC)};
    if (rooms.disk < 0)
        return errno;
    rooms.memory = open_memory(rooms.disk);
    error = cover_all(cover, rooms);
    if (!error && chdir(cover->folder) != 0)
        error = errno;
    close(rooms.disk);
    *memory = rooms.memory;
    return error;
}

bool plm__cover_works(const plm_cover *cover)
{
    int memory = -1, status = 1;
    const pid_t child = fork();
    if (child == 0)
        _exit(plm__cover_enter(cover, &memory) ? 1 : 0);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- what was written ---- */

/* nftw takes no word of the caller's. One thread runs scripts at a time. */
static struct {
    const plm_cover *cover;
    size_t root_length; /* of the folder that is walked */
    plm_written_function *visit;
    void *user;
} written;

/* ROOT/12u/data/a.pt was the file data/a.pt of folder 12. */
static int visit_one(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    char *end;
    (void)walk;
    const char *name = path + written.root_length + 1;
    if (kind != FTW_F || !S_ISREG(status->st_mode) || strlen(path) <= written.root_length)
        return 0;
    const long number = strtol(name, &end, 10);
    if (end == name || strncmp(end, "u/", 2) != 0 || number < 0 ||
        number >= written.cover->folders.count)
        return 0;
    char whole[PLM_SCRIPT_PATH_TEXT];
    snprintf(whole, sizeof whole, "%s/%s", written.cover->folders.items[number].path, end + 2);
    written.visit(whole, (size_t)status->st_size, written.user);
    return 0;
}

static void visit_folder(const char *root)
{
    written.root_length = strlen(root);
    (void)nftw(root, visit_one, OPEN_FOLDERS, FTW_PHYS);
}

void plm__cover_written(const plm_cover *cover, int memory, plm_written_function *visit, void *user)
{
    char path[NUMBER_TEXT];
    written.cover = cover;
    written.visit = visit;
    written.user = user;
    visit_folder(cover->room);
    if (memory < 0)
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d/.", memory);
    visit_folder(path);
}
