// stderr: yes
import ora from 'ora'; const s = ora('Loading').start(); s.text = 'still'; s.succeed('Done'); ora('x').fail('Failed'); ora({ text: 'silent', isSilent: true }).start().stop(); console.log(s.isSpinning, typeof ora.promise);
