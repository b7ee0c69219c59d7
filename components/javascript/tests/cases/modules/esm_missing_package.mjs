import thing from 'not-installed'; console.log(thing);
