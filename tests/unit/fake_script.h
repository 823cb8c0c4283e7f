/* SPDX-License-Identifier: MIT */
/*
 * A script that a forecast takes for one of PyTorch: a shell script that looks at the device that
 * it was told and leaves what a rank leaves. So the command is tested without PyTorch.
 *
 *     sh train.py [--batch N] [--mode MODE]
 *
 * It allocates N GiB (4) and reserves half a GiB more; rank R reserves R GiB more still. Modes:
 * fail (with an error), sizes (was asked for a size with a long name), t4fails (on that device),
 * silent (leaves nothing), dies (with status 7), garbage (leaves no JSON), r0fails (rank 0 ends
 * with an error), write (over the file `old`), pipe (in the place of the log), hang (for ever),
 * hangs64 (with a batch of 64), cudnn (takes the larger context), exits0 and exits3 (by itself,
 * before the steps asked for), exits3late (with status 3 behind them).
 */
#ifndef PLM_TEST_FAKE_SCRIPT_H
#define PLM_TEST_FAKE_SCRIPT_H

#define FAKE_SCRIPT                                                                                \
    "out=$(sed -n 's/.*\"out\":\"\\([^\"]*\\)\".*/\\1/p' \"$PLIMSOLL_FORECAST\")\n"                \
    "harmless=$(sed -n 's/.*\"harmless\":\"\\([^\"]*\\)\".*/\\1/p' \"$PLIMSOLL_FORECAST\")\n"      \
    "steps=$(sed -n 's/.*\"steps\":\\([0-9]*\\).*/\\1/p' \"$PLIMSOLL_FORECAST\")\n"                \
    "told() { sed -n \"s/^$1 //p\" \"$PLIMSOLL_PHANTOM\"; }\n"                                     \
    "batch=4 mode=plain rank=${RANK:-0} ranks=${WORLD_SIZE:-1} gib=1073741824\n"                   \
    "while [ $# -gt 0 ]; do\n"                                                                     \
    "  case $1 in\n"                                                                               \
    "  --batch=*) batch=${1#--batch=} ;;\n"                                                        \
    "  --batch) shift; batch=$1 ;;\n"                                                              \
    "  --mode) shift; mode=$1 ;;\n"                                                                \
    "  esac\n"                                                                                     \
    "  shift\n"                                                                                    \
    "done\n"                                                                                       \
    "echo \"loss 4.0 with batch $batch\"\n"                                                        \
    "allocated=$((batch * gib)) reserved=$((batch * gib + gib / 2 + rank * gib))\n"                \
    "ended=steps error=null line=null cudnn=false\n"                                               \
    "[ $((reserved + $(told context_bytes))) -le \"$(told memory_bytes)\" ] ||\n"                  \
    "  ended=out_of_memory line='\"train.py:41\"'\n"                                               \
    "case $mode in\n"                                                                              \
    "fail) ended=error line='\"train.py:41\"' error='\"TypeError: no such thing\"' ;;\n"           \
    "t4fails) [ \"$(told name)\" != 'Tesla T4' ] || { ended=error line='\"train.py:41\"' "         \
    "error='\"no bf16 here\"'; } "                                                                 \
    ";;\n"                                                                                         \
    "r0fails) [ $rank != 0 ] || { ended=error error='\"lost\"'; } ;;\n"                            \
    "sizes) echo \"size a convolution of cuDNN 9.1 (which cannot be told of a device; cuDNN 9.10 " \
    "or newer, first on LD_LIBRARY_PATH, can)\" >>\"$(told log)\"; ended=error ;;\n"               \
    "silent) exit 0 ;;\n"                                                                          \
    "dies) echo 'ImportError: no torch' >&2; exit 7 ;;\n"                                          \
    "garbage) echo '{\"torch\": 2' >\"$out/rank0.json\"; exit 0 ;;\n"                              \
    "write) echo new >old; mkdir -p made; echo more >made/deep; echo >best.pt ;;\n"                \
    "pipe) mkfifo \"$out/asked.txt\" ;;\n"                                                         \
    "hang) sleep 1000 ;;\n"                                                                        \
    "hangs64) [ $batch -lt 64 ] || sleep 1000 ;;\n"                                                \
    "cudnn) cudnn=true ;;\n"                                                                       \
    "exits[03]) [ $ended != steps ] || ended=script ;;\n"                                          \
    "esac\n"                                                                                       \
    "row=\"\\\"allocated_bytes\\\": $allocated, \\\"reserved_bytes\\\": $reserved\"\n"             \
    "[ ! -e \"$SNAPSHOT\" ] || cp \"$SNAPSHOT\" \"$out/rank$rank.pickle\"\n"                       \
    "cat >\"$out/rank$rank.json\" <<TEXT\n"                                                        \
    "{\"torch\": \"2.11.0+cu130\", \"cuda\": \"13.0\", \"python\": \"3.11\",\n"                    \
    " \"device\": \"$(told name)\", \"rank\": $rank, \"ranks\": $ranks, \"ended\": \"$ended\",\n"  \
    " \"error\": $error, \"line\": $line, \"attention\": \"flash\",\n"                             \
    " \"steps\": [{\"step\": 1, \"seconds\": 0.1, \"allocated_bytes\": $gib, "                     \
    "\"reserved_bytes\": $((2 * gib))}, {\"step\": $steps, \"seconds\": 0.1, $row}],\n"            \
    " \"evaluation\": [{\"step\": 2, \"seconds\": 0.2, \"allocated_bytes\": $((gib / 2)), "        \
    "\"reserved_bytes\": $reserved}],\n"                                                           \
    " \"end\": {$row}, \"peak\": {$row}, \"cudnn\": $cudnn,\n"                                     \
    " \"skipped_writes\": [\"best.pt\"],\n"                                                        \
    " \"warnings\": [{\"what\": \"it ran as $harmless on $(told devices)\", "                      \
    "\"line\": \"train.py:7\"}],\n"                                                                \
    " \"ranges\": [{\"what\": \"first updates skipped\", \"low_allocated_bytes\": $gib,\n"         \
    "   \"high_allocated_bytes\": $allocated, \"low_reserved_bytes\": $gib, "                      \
    "\"high_reserved_bytes\": $reserved}]}\n"                                                      \
    "TEXT\n"                                                                                       \
    "case $mode in exits3*) exit 3 ;; esac\n"

#endif
