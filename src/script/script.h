/* SPDX-License-Identifier: MIT */
/*
 * Running a program of the user's under files of ours without a trace: a private folder, a changed
 * environment, changed arguments, and a private view of the file system, in which whatever the
 * program writes goes to a place that is thrown away.
 *
 *     plm_place place;                       a folder under TMPDIR
 *     plm_words environment = {0};           a copy of environ, with ours set
 *     plm_cover cover;                       the folders whose writes are diverted
 *     plm_script script = {.command = ..., .environment = environment.items};
 *     plm_script_options options = {.cover = &cover};
 *     PLM_TRY(plm__scripts_run(&script, 1, &options, &end));
 *
 * A program is started by fork, through a warden: a process that enters the view, becomes the
 * parent of all that the program leaves running, and ends it. What is done between fork and exec
 * are system calls alone. One thread runs scripts at a time.
 */
#ifndef PLM_SCRIPT_SCRIPT_H
#define PLM_SCRIPT_SCRIPT_H

#include <signal.h>
#include <stdbool.h>

#include "base/array.h"
#include "base/text.h"

/* ---- a private folder ---- */

enum { PLM_PLACE_TEXT = 256, PLM_SCRIPT_PATH_TEXT = 4096 };

typedef struct plm_place {
    char path[PLM_PLACE_TEXT]; /* absolute, without links on its way; "" when there is none */
} plm_place;

/* Makes an empty folder for this user alone under `parent`, or under TMPDIR's value, given as
 * `parent`, or /tmp where that is NULL or empty. PLM_ERROR_IO. */
PLM_MUST_USE plm_status plm__place_create(const char *parent, plm_place *place);

/* Removes it with all that it holds, as far as that is possible. An empty place is allowed. */
void plm__place_remove(plm_place *place);

/* Removes a folder with all that it holds. */
void plm__tree_remove(const char *path);

/* "PLACE/NAME" in `path`. PLM_ERROR_IO when that is too long. */
PLM_MUST_USE plm_status plm__place_path(const plm_place *place, const char *name,
                                        char path[PLM_SCRIPT_PATH_TEXT]);

/* ---- words: an environment, a command ---- */

typedef struct plm_words {
    char **items; /* ended by NULL once there is one word; each word is owned */
    int64_t count;
    int64_t capacity;
} plm_words;

/* Appends copies of a NULL-ended list. PLM_ERROR_HOST_MEMORY, as the next three. */
PLM_MUST_USE plm_status plm__words_add(plm_words *words, char *const *list);
PLM_MUST_USE plm_status plm__words_push(plm_words *words, const char *word);
void plm__words_free(plm_words *words);

/* Of an environment: its value, NULL for none; set in place of an older one; put before what a list
 * with ':' holds; taken out. */
const char *plm__environment_get(const plm_words *environment, const char *name);
PLM_MUST_USE plm_status plm__environment_set(plm_words *environment, const char *name,
                                             const char *value);
PLM_MUST_USE plm_status plm__environment_prepend(plm_words *environment, const char *name,
                                                 const char *value);
void plm__environment_unset(plm_words *environment, const char *name);

/*
 * Sets an argument of the program in a command's words: "--batch 8", "--batch=8", "batch=8", and
 * "-b 8" or "-b8" for a name of one letter, in all places where it stands; '-' and '_' in a name
 * are the same. Where it does not stand, "--batch=8" ("-b", "8") is appended. Words before the
 * program's own file (python's and torchrun's) are left alone.
 *
 *     python train.py --batch 4   and batch = 8 give   python train.py --batch 8
 */
PLM_MUST_USE plm_status plm__arguments_set(plm_words *command, const char *name, int64_t value);

/* The place of the word that names the program's own file or module: the first word after the
 * program's that ends in ".py", or that stands behind "-m" and is no launcher's; 0 when there is
 * none. */
int64_t plm__script_word(const plm_words *command);

/* ---- the largest value that fits ---- */

typedef plm_status plm_fits_function(void *user, int64_t value, bool *fits);

/*
 * *largest = the largest value from `least` to `most` that fits, least - 1 when none does, by
 * bisection: whatever is below a value that fits is taken to fit. Both ends are tried first, so
 * 1 to 64 takes at most 8 trials. A trial that fails ends it with its status.
 */
PLM_MUST_USE plm_status plm__bisect_largest(int64_t least, int64_t most, plm_fits_function *fits,
                                            void *user, int64_t *largest);

/* ---- a private view of the file system ---- */

enum { PLM_COVER_MAX = 256 };

/* Something that is mounted, or a folder of the root. */
typedef struct plm_covered {
    char *path;    /* owned */
    bool diverted; /* writes go to the private place; false: it stays as it is, unwritable */
} plm_covered;

typedef struct plm_cover {
    PLM_ARRAY(plm_covered) folders;    /* parents before what lies in them */
    plm_words kept;                    /* paths that stay the real ones, written through */
    char folder[PLM_SCRIPT_PATH_TEXT]; /* the working directory */
    char room[PLM_SCRIPT_PATH_TEXT];   /* takes what is written; in a folder that is kept */
} plm_cover;

/* Whether `path` is `folder` or lies in it. */
bool plm__path_lies_in(const char *path, const char *folder);

/*
 * Lists what has to be covered so that no write under `folder`, or anywhere else but /proc, /sys,
 * /dev and /run, reaches a disk: overlay mounts, in a mount namespace of the program's own. `room`
 * is an empty folder. `kept`, NULL-ended, are folders that the program may really write, missing
 * ones passed over. PLM_ERROR_UNSUPPORTED where the system does not say what is mounted.
 */
PLM_MUST_USE plm_status plm__cover_init(plm_cover *cover, const char *folder, const char *room,
                                        char *const *kept);

/*
 * Covers the working directory by itself too. Without root the kernel lays no overlay over a folder
 * in which something else is mounted: where /home/ann/disk is, /home cannot be covered, but
 * /home/ann/work can, and /home is then unwritable.
 */
PLM_MUST_USE plm_status plm__cover_narrow(plm_cover *cover);
void plm__cover_fini(plm_cover *cover);

/* Whether this kernel lets this user have such a view: tried in a child. */
bool plm__cover_works(const plm_cover *cover);

/* Whether `path` is `folder` or lies in it. Both are absolute, as the system's own names: without
 * links, dots and ends of "/". */
bool plm__path_lies_in(const char *path, const char *folder);

/* Between fork and exec. 0, or the errno of the call that failed. *memory = the folder that takes
 * what the room's disk cannot, for plm__cover_written; -1. */
int plm__cover_enter(const plm_cover *cover, int *memory);

/*
 * Calls `visit` with the path that a program would have written and its size, for each file that it
 * did write. `memory` as plm_script_end has it.
 */
typedef void plm_written_function(const char *path, size_t bytes, void *user);
void plm__cover_written(const plm_cover *cover, int memory, plm_written_function *visit,
                        void *user);

/* ---- running ---- */

typedef struct plm_script {
    char *const *command;     /* NULL-ended; its first word is looked up in PATH */
    char *const *environment; /* NULL-ended */
} plm_script;

typedef struct plm_script_options {
    const plm_cover *cover;            /* the view that they share; NULL: the real file system */
    double limit_seconds;              /* of all; 0: none */
    const volatile sig_atomic_t *stop; /* not 0: end them and return; NULL */
    bool echo;                         /* what they write goes to standard error too */
} plm_script_options;

enum { PLM_SCRIPT_TAIL_TEXT = 8192, PLM_SCRIPTS_MAX = 64 };

typedef struct plm_script_end {
    int exit_status; /* of the first that failed, 128 + the signal that ended it; 0 */
    bool stopped;    /* by options.stop */
    bool timed_out;
    int memory; /* a folder of what was written, to be closed; -1: none */
    int64_t tail_count;
    char tail[PLM_SCRIPT_TAIL_TEXT]; /* the end of what they wrote to both streams */
} plm_script_end;

/*
 * Runs `count` programs at once and waits for all; they read nothing. When one fails, the others
 * have ten seconds to end. Whatever they left running is killed. PLM_ERROR_ARGUMENT when a command
 * cannot be run, PLM_ERROR_IO when the system refuses a process or the view.
 */
PLM_MUST_USE plm_status plm__scripts_run(const plm_script *scripts, int count,
                                         const plm_script_options *options, plm_script_end *end);

#endif
