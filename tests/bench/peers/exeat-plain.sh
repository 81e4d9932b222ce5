# Exeat without a credential: policy, verified origins and the chained log as in exeat.sh, but nothing is put
# on a request and no answer is searched. What sslsplit, which does neither, is to be held against.
. "$EXEAT_BENCH/peers/exeat.sh"
INJECTS=no
caps() { echo "h1 h2 many mint verify"; }
