eval(atob('MQ=='));
