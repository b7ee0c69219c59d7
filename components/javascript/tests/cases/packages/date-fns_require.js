const { format } = require('date-fns/format'); const { de } = require('date-fns/locale/de'); console.log(format(new Date(2024, 2, 5), 'd. MMMM yyyy', { locale: de }));
