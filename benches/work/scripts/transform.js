const { readFileSync, writeFileSync } = require("node:fs");

const orders = JSON.parse(readFileSync(process.argv[2], "utf8"));
const cities = {};
for (const { city, quantity, total, day } of orders) {
    const found = (cities[city] ??= { city, orders: 0, quantity: 0, total: 0, days: new Set() });
    found.orders += 1;
    found.quantity += quantity;
    found.total += Number(total);
    found.days.add(day);
}
const report = Object.values(cities).map(({ days, total, ...rest }) => ({ ...rest, days: days.size, total: total.toFixed(2) }));
report.sort((a, b) => a.city.localeCompare(b.city));
writeFileSync("transformed.json", JSON.stringify(orders.map(({ id, total, ...rest }) => ({ id: `order-${id}`, cents: Math.round(total * 100), ...rest }))));
console.log(JSON.stringify(report, null, 2));
