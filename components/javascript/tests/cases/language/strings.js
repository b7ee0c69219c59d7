console.log('abc'.at(-1), 'abc'.padStart(5, '*'), 'abc'.padEnd(6, '12'), ' x '.trim() + '|', 'ab'.repeat(3), 'a-b'.split('-'));
console.log('💩'.length, [...'💩a'].length, '💩'.codePointAt(0), String.fromCodePoint(128169), 'é'.normalize('NFD').length);
console.log('Straße'.toUpperCase(), 'İ'.toLowerCase().length, 'ß'.localeCompare('ss'), 'a'.localeCompare('b'), 'résumé' > 'resume');
console.log(String.raw`a\n${1}`, `multi
line`, 'tab\tx'.length, '\u{1F600}'.isWellFormed(), '\ud800'.toWellFormed() === '\ufffd');
console.log('abcabc'.lastIndexOf('b'), 'abc'.includes('bc'), 'abc'.substring(2, 0), 'abc'.slice(-2), 'abc'.substr(-2, 1), 'abc'.search(/c/));
function tag(parts, ...values) { return parts.raw.join('|') + values; }
console.log(tag`x${1}\ty${2}z`, escape('ü €'), unescape('%FC%20%u20AC'), encodeURIComponent('a b&ü'), decodeURIComponent('%E2%82%AC'), encodeURI('http://x/ü?a=b c'));
