/* SPDX-License-Identifier: MIT */
/*
 * Running programs through a warden: what they write is read as it comes, what the warden says
 * decides. This process does nothing that a signal could leave half done.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "script/warden.h"

enum { WAIT_MILLISECONDS = 100, PIECE_BYTES = 4096 };

typedef struct run {
    int output;  /* what the programs write */
    int channel; /* what the warden says */
    pid_t warden;
    bool echo;
    bool ended;               /* the warden said so */
    int no_cover, cannot_run; /* errno; 0 */
    plm_script_end *end;
} run;

/* Keeps the end of what was written. */
static void keep_tail(plm_script_end *end, const char *bytes, size_t count)
{
    const size_t room = sizeof end->tail - 1;
    size_t had = (size_t)end->tail_count;
    if (had + count > room) {
        const size_t lost = had + count - room;
        memmove(end->tail, end->tail + lost, had - lost);
        had -= lost;
    }
    memcpy(end->tail + had, bytes, count);
    end->tail_count = (int64_t)(had + count);
    end->tail[end->tail_count] = '\0';
}

/* Passes on what is there to be read; false at the end of it. */
static bool read_output(run *now)
{
    char piece[PIECE_BYTES];
    const ssize_t count = read(now->output, piece, sizeof piece);
    if (count <= 0)
        return count < 0 && (errno == EINTR || errno == EAGAIN);
    keep_tail(now->end, piece, (size_t)count);
    for (ssize_t done = 0; now->echo && done < count;) {
        const ssize_t written = write(STDERR_FILENO, piece + done, (size_t)(count - done));
        if (written < 0 && errno != EINTR)
            break;
        done += written > 0 ? written : 0;
    }
    return true;
}

static int descriptor_of(struct msghdr *letter)
{
    int descriptor = -1;
    struct cmsghdr *head = CMSG_FIRSTHDR(letter);
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS)
        memcpy(&descriptor, CMSG_DATA(head), sizeof descriptor);
    return descriptor;
}

/* Hears one message; false when the warden is gone. */
static bool hear(run *now)
{
    plm_warden_message message;
    struct iovec bytes = {.iov_base = &message, .iov_len = sizeof message};
    union {
        char room[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr letter = {.msg_iov = &bytes,
                            .msg_iovlen = 1,
                            .msg_control = &control,
                            .msg_controllen = sizeof control.room};
    const ssize_t count = recvmsg(now->channel, &letter, MSG_CMSG_CLOEXEC);
    if (count < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    if (count != (ssize_t)sizeof message)
        return false;
    if (message.kind == PLM_WARDEN_BEGINS)
        now->end->memory = descriptor_of(&letter);
    if (message.kind == PLM_WARDEN_NO_COVER)
        now->no_cover = message.number;
    if (message.kind == PLM_WARDEN_CANNOT_RUN)
        now->cannot_run = message.number;
    if (message.kind == PLM_WARDEN_ENDED) {
        now->ended = true;
        now->end->exit_status = message.number;
        now->end->timed_out = message.timed_out;
    }
    return true;
}

/* Until the warden has said its last word and what was written is read. */
static void follow(run *now, const plm_script_options *options)
{
    bool heard = true, read_all = false;
    while (heard || !read_all) {
        struct pollfd places[2] = {{.fd = read_all ? -1 : now->output, .events = POLLIN},
                                   {.fd = heard ? now->channel : -1, .events = POLLIN}};
        /* Once the warden is gone nobody writes any more, but for what ran away from it. */
        const int ready = poll(places, 2, heard ? WAIT_MILLISECONDS : 0);
        if (options->stop && *options->stop && !now->end->stopped) {
            now->end->stopped = true;
            kill(now->warden, SIGTERM);
        }
        if (ready > 0 && places[0].revents)
            read_all = !read_output(now);
        else if (!heard)
            read_all = true;
        if (ready > 0 && places[1].revents)
            heard = hear(now);
    }
}

/* In the child: output to the pipe, input from nowhere. */
static void set_streams(int output)
{
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void)dup2(nothing, STDIN_FILENO);
    (void)dup2(output, STDOUT_FILENO);
    (void)dup2(output, STDERR_FILENO);
}

static plm_status start(const plm_script *scripts, int count, const plm_script_options *options,
                        run *now)
{
    int output[2], channel[2];
    PLM_FAIL_IF(pipe2(output, O_CLOEXEC) != 0, PLM_ERROR_IO, "cannot make a pipe: %s",
                strerror(errno));
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) != 0) {
        close(output[0]);
        close(output[1]);
        return plm_fail(PLM_ERROR_IO, "cannot make a socket: %s", strerror(errno));
    }
    /* Held from before the fork: one that came between would meet our handler, and be lost. */
    const sigset_t held = plm__warden_signals();
    sigset_t before;
    (void)sigprocmask(SIG_BLOCK, &held, &before);
    now->warden = fork();
    if (now->warden == 0) {
        set_streams(output[1]);
        plm__warden_be(scripts, count, options, channel[1]);
    }
    const int error = errno;
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    close(output[1]);
    close(channel[1]);
    now->output = output[0];
    now->channel = channel[0];
    if (now->warden > 0)
        return PLM_OK;
    close(output[0]);
    close(channel[0]);
    return plm_fail(PLM_ERROR_IO, "cannot start a process: %s", strerror(error));
}

static plm_status judge(const run *now, const plm_script *script)
{
    PLM_FAIL_IF(now->no_cover, PLM_ERROR_IO, "the private view of the file system was refused: %s",
                strerror(now->no_cover));
    PLM_FAIL_IF(now->cannot_run, PLM_ERROR_ARGUMENT, "cannot run '%.200s': %s", script->command[0],
                strerror(now->cannot_run));
    PLM_FAIL_IF(!now->ended && !now->end->stopped, PLM_ERROR_IO,
                "the process that ran '%.200s' was killed from outside; is memory short?",
                script->command[0]);
    return PLM_OK;
}

plm_status plm__scripts_run(const plm_script *scripts, int count, const plm_script_options *options,
                            plm_script_end *end)
{
    PLM_ASSERT(count >= 1 && count <= PLM_SCRIPTS_MAX);
    run now = {.echo = options->echo, .end = end};
    *end = (plm_script_end){.memory = -1};
    PLM_TRY(start(scripts, count, options, &now));
    follow(&now, options);
    while (waitpid(now.warden, NULL, 0) < 0 && errno == EINTR)
        continue;
    close(now.output);
    close(now.channel);
    plm_status status = judge(&now, &scripts[0]);
    if (status != PLM_OK && end->memory >= 0) {
        close(end->memory);
        end->memory = -1;
    }
    return status;
}
