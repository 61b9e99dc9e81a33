#!/bin/sh
# A black box in shell and awk: each attribute is drawn by itself, from the records' own values.
# Standard input holds one line of JSON, its names in alphabetical order, then the codes; see docs/authors.md.
export LC_ALL=C

read -r header
number() { printf '%s\n' "$header" | sed -n 's/.*,"'"$1"'":"\{0,1\}\([0-9]*\).*/\1/p'; }

# The last nine digits: awk holds numbers in 53 bits, and some hold seeds in 32.
seed=$(number seed | sed 's/.*\(.\{9\}\)$/\1/; s/^0*//')

# Whatever an attribute is called, its size is the number behind its name.
sizes=$(printf '%s\n' "$header" |
    sed 's/"[^"\\]*\(\\.[^"\\]*\)*"/-/g; s/^{-:\[\(\[[-,0-9]*\]\(,\[[-,0-9]*\]\)*\)\].*/\1/; s/[^0-9]\{1,\}/ /g')

od -An -v -tu1 -w1 | awk -v sizes="$sizes" -v rows="$(number rows)" \
    -v records="$(number records)" -v seed="${seed:-0}" '
    { byte[NR - 1] = $1 + 0 }
    END {
        srand(seed)
        printf "{\"format\":\"gencard.box.v1\",\"rows\":%d}\n", rows
        attributes = split(sizes, size, " ")
        for (a = 1; a <= attributes; a++) {
            width = size[a] > 256 ? 2 : 1
            for (row = 0; row < rows; row++) {
                at = start + width * int(records * rand())
                for (b = 0; b < width; b++) printf "%c", byte[at + b]
            }
            start += width * records
        }
    }'
