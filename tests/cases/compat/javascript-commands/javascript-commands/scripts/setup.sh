npm ci
node -e 'require("fs"); require("chart-kit")'
npx -y tsx scripts/run.ts
node <<'END'
require("node:net");
END
