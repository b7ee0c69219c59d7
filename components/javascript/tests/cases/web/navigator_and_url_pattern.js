console.log(navigator.hardwareConcurrency > 0, navigator.language, navigator.userAgent.split('.')[0], navigator.platform);
