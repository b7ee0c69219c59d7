export function getUser(id) {
  return getAll()[id];
}
