let depth = 0;
function down() {
    depth++;
    down();
}
try {
    down();
} catch (error) {
    console.log(error.name, error.message, depth);
}
