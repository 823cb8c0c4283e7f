/* SPDX-License-Identifier: MIT */
/*
 * The device's first promise, checked: a launch touches its operands and its workspace and nothing
 * else. A session that checks (every one in a build with PLM_CHECK, or by plm__session_create_as)
 * runs its programs through here.
 *
 * - What dies is filled with NaN (bytes 0xFF), and so is the whole transient region before a
 *   program, its inputs apart; who reads it brings NaN into the result.
 * - A kernel of ours under the address sanitizer runs while everything that it did not declare is
 *   forbidden: the first touch ends the program and names the line.
 * - Any other launch (a library's code, which the sanitizer does not see; every launch in a build
 *   without it) is compared: the arena is copied before it and must be the same after it, but for
 *   what the launch may write. Then the launch runs again from the copy with everything that it may
 *   not read set to something else, NaN where data lives, and must give the same bits: if not, it
 *   read what it did not declare, or left a part of its output unwritten. Where an operation
 *   reaches is the same each time, so only its 1st, 2nd, 4th, 8th ... launch is compared.
 *
 * A broken promise is PLM_ERROR_DEVICE, which names the operation. The checks hold two copies of
 * the arena in host memory and run compared launches twice: builds for people do without. The
 * arena's last granule is not filled, so that what the run wrote there still proves its size.
 */
#ifndef PLM_RUN_CHECK_H
#define PLM_RUN_CHECK_H

#include "plan/plan.h"

typedef struct plm_check plm_check;

/* *check = checks of `plan` bound to `arena` of the device; all three borrowed, the check the
 * caller's. PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm__check_create(const plm_plan *plan, plm_device *device, uint8_t *arena,
                                          plm_check **check);

/* NULL is allowed. */
void plm__check_destroy(plm_check *check);

/* Before a program, whose inputs are in place. */
PLM_MUST_USE plm_status plm__check_begin(plm_check *check, plm_program program);

/* Launches operation `index` of the graph, one of the program that was begun, in its turn. */
PLM_MUST_USE plm_status plm__check_launch(plm_check *check, int64_t index, const plm_launch *launch,
                                          void *prepared);

#endif
