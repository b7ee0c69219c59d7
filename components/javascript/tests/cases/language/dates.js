const d = new Date(Date.UTC(2024, 1, 29, 12, 34, 56, 789));
console.log(d, d.toISOString(), JSON.stringify(d), d.getTime(), d.getDay(), d.getTimezoneOffset());
console.log(String(d), d.toDateString(), d.toUTCString(), d.toTimeString());
console.log(new Date('2024-03-10'), new Date('2024-03-10T10:00'), new Date('2024-03-10T10:00:00+02:00'), new Date('Mar 5, 2024 10:00 GMT'), new Date(2024, 0, 31));
console.log(new Date('nonsense'), String(new Date(NaN)), Date.parse('Thu, 01 Jan 1970 00:00:00 GMT'), isNaN(new Date('x')));
try { new Date(NaN).toISOString(); } catch (e) { console.log(e.name, e.message); }
d.setMonth(d.getMonth() + 1); console.log(d.toISOString()); d.setDate(0); console.log(d.toISOString());
console.log(new Date(8.64e15 + 1).getTime(), new Date(2024, 0) - new Date(2023, 0), typeof Date.now(), new Date(0).toJSON());
