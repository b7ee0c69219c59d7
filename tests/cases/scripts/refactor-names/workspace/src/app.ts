import { getUser } from "./users";
const target = getUser(1); // getUser bleibt?
widget.getÄpfel();
