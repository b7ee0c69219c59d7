document.title = require("jquery");
