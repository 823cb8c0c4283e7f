/* SPDX-License-Identifier: MIT */
/*
 * The warden: a process between ours and the programs. It enters the private view, starts the
 * programs in it, inherits whatever they leave behind, and lets nothing outlive the run. It lives
 * between fork and exec, so it makes system calls and nothing else. It dies with the process that
 * forked it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "script/warden.h"

enum { GRACE_SECONDS = 10, ROUNDS_MAX = 5000, LISTING_TEXT = 4096 };

/* Sends a message, with a descriptor when `descriptor` is one. */
static void tell(int channel, plm_warden_message message, int descriptor)
{
    struct iovec bytes = {.iov_base = &message, .iov_len = sizeof message};
    union {
        char room[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {.room = {0}};
    struct msghdr letter = {.msg_iov = &bytes, .msg_iovlen = 1};
    if (descriptor >= 0) {
        letter.msg_control = &control;
        letter.msg_controllen = sizeof control.room;
        struct cmsghdr *head = CMSG_FIRSTHDR(&letter);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(head), &descriptor, sizeof(int));
    }
    (void)sendmsg(channel, &letter, MSG_NOSIGNAL);
}

/* Whether who started us wants the signal to do nothing, as nohup and a shell's "&" do. */
static bool is_ignored(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

sigset_t plm__warden_signals(void)
{
    static const int numbers[] = {SIGINT, SIGHUP};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM); /* how the process above ends the run */
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!is_ignored(numbers[i]))
            sigaddset(&set, numbers[i]);
    return set;
}

/* Signals are a program's as it would find them from a shell. */
static void reset_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    for (int number = 1; number < NSIG; number++)
        if ((number != SIGINT && number != SIGHUP) || !is_ignored(number))
            (void)signal(number, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static void become(const plm_script *script, int channel)
{
    reset_signals();
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    execvpe(script->command[0], script->command, script->environment);
    tell(channel, (plm_warden_message){.kind = PLM_WARDEN_CANNOT_RUN, .number = errno}, -1);
    _exit(127);
}

/* Kills every child that there is. */
static void kill_children(void)
{
    char listing[LISTING_TEXT];
    snprintf(listing, sizeof listing, "/proc/self/task/%ld/children", (long)getpid());
    const int descriptor = open(listing, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return;
    ssize_t count = read(descriptor, listing, sizeof listing - 1);
    close(descriptor);
    long number = 0;
    for (ssize_t i = 0; i < count; i++) {
        if (listing[i] >= '0' && listing[i] <= '9') {
            number = number * 10 + (listing[i] - '0');
            continue;
        }
        if (number > 1)
            (void)kill((pid_t)number, SIGKILL);
        number = 0;
    }
}

/* Ends all children, and theirs, which become ours when their parents die: so no round waits for
 * one that came to be ours after its kill. */
static void end_all(void)
{
    const struct timespec pause = {.tv_nsec = 2 * 1000 * 1000};
    for (int round = 0; round < ROUNDS_MAX; round++) {
        kill_children();
        pid_t ended;
        while ((ended = waitpid(-1, NULL, WNOHANG)) > 0)
            continue;
        if (ended < 0)
            return; /* there is none left */
        nanosleep(&pause, NULL);
    }
}

static int status_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static double seconds_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Takes the children that ended; returns how many of the programs are still there. The first that
 * fails lets the others ten seconds more. */
static int reap(pid_t *programs, int count, int *exit_status, double *limit)
{
    int status, left = 0;
    pid_t ended;
    while ((ended = waitpid(-1, &status, WNOHANG)) > 0) {
        for (int i = 0; i < count; i++) {
            if (programs[i] != ended)
                continue;
            programs[i] = 0;
            if (status_of(status) != 0 && *exit_status == 0) {
                *exit_status = status_of(status);
                const double grace = seconds_now() + GRACE_SECONDS;
                *limit = *limit > 0 && *limit < grace ? *limit : grace;
            }
        }
    }
    for (int i = 0; i < count; i++)
        left += programs[i] > 0;
    return left;
}

/* Waits for the programs; a signal to the warden, or the limit, ends the wait. */
static plm_warden_message watch(pid_t *programs, int count, double limit_seconds)
{
    const sigset_t set = plm__warden_signals();
    plm_warden_message end = {.kind = PLM_WARDEN_ENDED};
    const double own_limit = limit_seconds > 0 ? seconds_now() + limit_seconds : 0;
    double limit = own_limit;
    while (reap(programs, count, &end.number, &limit) > 0) {
        const struct timespec wait = {.tv_nsec = 200 * 1000 * 1000};
        const int caught = sigtimedwait(&set, NULL, &wait);
        if (caught > 0 && caught != SIGCHLD)
            break;
        if (limit > 0 && seconds_now() >= limit) {
            end.timed_out = limit == own_limit;
            break;
        }
    }
    return end;
}

void plm__warden_be(const plm_script *scripts, int count, const plm_script_options *options,
                    int channel)
{
    pid_t programs[PLM_SCRIPTS_MAX];
    int memory = -1;
    (void)signal(SIGCHLD, SIG_DFL); /* ignored, children would end unseen */
    const int error = options->cover ? plm__cover_enter(options->cover, &memory) : 0;
    if (error) {
        tell(channel, (plm_warden_message){.kind = PLM_WARDEN_NO_COVER, .number = error}, -1);
        _exit(1);
    }
    /* Behind the namespaces: a change of credentials takes these back. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    tell(channel, (plm_warden_message){.kind = PLM_WARDEN_BEGINS}, memory);
    for (int i = 0; i < count; i++) {
        programs[i] = fork();
        if (programs[i] == 0)
            become(&scripts[i], channel);
        if (programs[i] < 0)
            tell(channel, (plm_warden_message){.kind = PLM_WARDEN_CANNOT_RUN, .number = errno}, -1);
    }
    plm_warden_message end = watch(programs, count, options->limit_seconds);
    end_all();
    tell(channel, end, -1);
    _exit(0);
}
