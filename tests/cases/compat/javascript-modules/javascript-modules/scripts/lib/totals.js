export const total = (rows) => rows.reduce((sum, row) => sum + row, 0);
export async function chart() {
  return (await import("puppeteer")).launch();
}
