/* SPDX-License-Identifier: MIT */
/* What the calling thread was refused last, for the text of the error. */
#ifndef PLM_PHANTOM_REFUSED_H
#define PLM_PHANTOM_REFUSED_H

/* The function's name; "this function" where nothing was refused. */
const char *plm__refused_name(void);

#endif
