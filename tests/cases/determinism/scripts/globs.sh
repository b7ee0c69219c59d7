cd /workspace; echo *; echo many/*; echo many/.*; shopt -s globstar nullglob; echo **/*.txt **/e*; for f in many/[a-zA-Z]*; do printf '%s ' "$f"; done; echo; echo /data/*/*
