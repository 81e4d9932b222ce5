# Exeat with a rule by path beside those by host: each request's path is judged, by the broker, too.
. "$EXEAT_BENCH/peers/exeat.sh"
PATHS=yes
