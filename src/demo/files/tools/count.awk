# Counts one part of an access log in the combined log format: statuses, paths, hours and bytes.
# A line that is not whole goes to the file `torn` instead.
BEGIN { FS = "\"" }
NF != 7 || $3 !~ /^ [0-9]+ [0-9-]+ $/ {
    print > torn
    next
}
{
    lines++
    split($3, answer, " ")
    split($2, request, " ")
    split(request[2], path, "?")
    # Numbers inside a path are one kind of page: /products/12 is /products/#.
    gsub(/\/[0-9]+/, "/#", path[1])
    split($1, time, ":")
    status[answer[1]]++
    hits[path[1]]++
    sent[path[1]] += answer[2]
    hour[time[2]]++
    bytes += answer[2]
}
END {
    printf "lines\tall\t%d\n", lines
    printf "bytes\tall\t%d\n", bytes
    for (key in status) printf "status\t%s\t%d\n", key, status[key]
    for (key in hits) printf "hits\t%s\t%d\n", key, hits[key]
    for (key in sent) printf "sent\t%s\t%d\n", key, sent[key]
    for (key in hour) printf "hour\t%s\t%d\n", key, hour[key]
}
