read -r first; echo "first: $first"; head -n 1; while IFS= read -r line; do echo "[$line]"; done; echo end; read -r none || echo nothing
