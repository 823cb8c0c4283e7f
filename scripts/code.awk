# SPDX-License-Identifier: MIT
# For the checks that read sources as code. `in_comment` must be 0 at the start of each file.

# The line without comments, texts and characters; a comment may go on over lines.
function code_of(line,    out, c, two, quote) {
    out = ""
    while (line != "") {
        c = substr(line, 1, 1)
        two = substr(line, 1, 2)
        if (in_comment) {
            if (two == "*/") { in_comment = 0; line = substr(line, 3) } else line = substr(line, 2)
        } else if (two == "/*") { in_comment = 1; line = substr(line, 3) }
        else if (two == "//") return out
        else if (c == "\"" || c == "\x27") {
            quote = c
            line = substr(line, 2)
            while (line != "" && substr(line, 1, 1) != quote)
                line = substr(line, substr(line, 1, 1) == "\\" ? 3 : 2)
            line = substr(line, 2)
            out = out "0"
        } else { out = out c; line = substr(line, 2) }
    }
    return out
}
