"""Words that mail programs write in their users' languages: attributions, header labels, forward marks, signatures.

Lists only; `quotes` and `signatures` say how they are used. Add a language by adding its words here.
"""

from __future__ import annotations

# "wrote", as attributions end (or, in German and Scandinavian ones, contain). Matched as whole words, in lower case.
WROTE = (
    "wrote|writes|said|schrieb|schreibt|geschrieben|hat geschrieben|a écrit|a ecrit|écrit|écrivait|"
    "escribió|escribio|escribía|ha escrito|escreveu|ha scritto|scrisse|scrive|schreef|heeft geschreven|het volgende geschreven|"
    "skrev|skreiv|har skrevet|har skrivit|skrifaði|kirjoitti|napisał|napisała|napisał\\(a\\)|pisze|napsal|napsala|"
    "napsal\\(a\\)|napísal|napísala|napísal\\(a\\)|píše|írta|írta a következőt|ezt írta|a scris|scris|yazdı|şunları yazdı|yazmış|"
    "написал|написала|написал\\(а\\)|написав|написала\\(в\\)|пише|пишет|писал|писала|написа|је написао|је написала|"
    "je napisao|je napisala|napisao je|napisala je|napisao|napisala|je napisal|parašė|rašė|rakstīja|kirjutas|"
    "έγραψε|έγραψαν|va escriure|escrigué|ha escrit|idatzi du|escribiu|ysgrifennodd|đã viết|viết|menulis|"
    "כתב|כתבה|כתב/ה|מאת|كتب|كتبت|نوشت|เขียน|写道|寫道|写到|写了|書きました|のメッセージ|さんは書きました|작성|님이 작성|wrote the following"
).split("|")

# How attributions begin, before a date or a name.
OPENERS = (
    "on|at|in|am|den|le|el|il|em|op|dne|dňa|dnia|w dniu|på|pe|den|la|în data de|dana|a|in data|em data de|"
    "date|datum|fecha|le|vào|pada|στις|ב|ב-|בתאריך|في|بتاريخ|在|於|tarihinde|ar|d|u|quoting|from"
).split("|")

FROM = (
    "from|von|de|da|van|fra|från|lähettäjä|od|expéditeur|kimden|gönderen|от|от кого|від|від кого|发件人|寄件者|寄件人|發件人|"
    "差出人|送信者|보낸 사람|보낸사람|feladó|από|αποστολέας|מאת|من|از|de la|saatja|nuo|no|dari|từ|จาก|remitente|remetente|"
    "mittente|afzender|absender|avsändare|avsender|afsender|nadawca|odesílatel|odosielateľ|šalje|pošiljatelj|expeditor|"
    "отправитель|frá"
).split("|")
DATE = (
    "sent|date|gesendet|datum|envoyé|envoyé le|enviado|enviado el|enviado em|fecha|data|inviato|verzonden|sendt|"
    "skickat|lähetetty|päivämäärä|päiväys|wysłano|data wysłania|odesláno|odoslané|odoslaný|dátum|отправлено|дата|надіслано|发送时间|"
    "发送日期|日期|傳送時間|寄件日期|寄送日期|时间|送信日時|日付|日時|보낸 날짜|날짜|보낸날짜|elküldve|dátum|küldve|gönderilme tarihi|tarih|"
    "gönderildi|ημερομηνία|στάλθηκε|נשלח|תאריך|תאריך שליחה|تاريخ|تم الإرسال|التاريخ|ارسال شده|trimis|data trimiterii|saadetud|kuupäev|"
    "išsiųsta|nosūtīts|dikirim|tanggal|đã gửi|ngày|ส่ง|วันที่|dato|poslano|послано|datums|sent at"
).split("|")
TO = (
    "to|an|à|a|para|aan|til|till|vastaanottaja|do|komu|kime|alıcı|кому|до|收件人|宛先|받는 사람|받는사람|címzett|προς|אל|إلى|الى|"
    "به|către|catre|saaja|kam|kepada|đến|ถึง|destinataire|destinatario|destinatário|empfänger|за|prima|primatelj|reply-to|"
    "cc|cópia|kopie|kopia|kopi|kopio|копия|копія|抄送|副本|참조|másolat|κοινοποίηση|עותק|نسخة|bilgi|bcc|dw|kopija|antwort an|"
    "responder a|répondre à|organization|newsgroups|importance|priority"
).split("|")
SUBJECT = (
    "subject|betreff|objet|asunto|assunto|oggetto|onderwerp|emne|ämne|aihe|temat|předmět|predmet|konu|тема|主题|主題|主旨|件名|"
    "제목|tárgy|θέμα|נושא|الموضوع|موضوع|subiect|teema|tema|temats|subjek|perihal|chủ đề|tiêu đề|เรื่อง|относно|efni|assumpte|gaia"
).split("|")

# Between dashes: what follows is an older message …
ORIGINAL = (
    "original message|original appointment|original-nachricht|originalnachricht|ursprüngliche nachricht|ursprüngliche mitteilung|"
    "message d'origine|message d’origine|message original|message initial|mensaje original|mensagem original|messaggio originale|"
    "messaggio originario|oorspronkelijk bericht|origineel bericht|oprindelig meddelelse|oprindelig besked|original meddelelse|"
    "opprinnelig melding|originalmelding|ursprungligt meddelande|originalmeddelande|alkuperäinen viesti|wiadomość oryginalna|"
    "oryginalna wiadomość|původní zpráva|pôvodná správa|исходное сообщение|пересланное сообщение|оригинальное сообщение|"
    "вихідне повідомлення|оригінальне повідомлення|原始邮件|原始郵件|原邮件|元のメッセージ|원본 메시지|원본 메일|eredeti üzenet|mesaj original|mesajul original|orijinal mesaj|"
    "özgün ileti|özgün mesaj|αρχικό μήνυμα|הודעה מקורית|الرسالة الأصلية|izvorna poruka|originalna poruka|izvirno sporočilo|"
    "reply message|reply above this line|please type your reply above this line|antwort oberhalb dieser zeile|previous message|"
    "previous replies|antwort|urspr\\. nachricht|wrote"
).split("|")
# … or one that is passed on.
FORWARDED = (
    "forwarded message|forwarded by|begin forwarded message|forwarded email|weitergeleitete nachricht|anfang der weitergeleiteten nachricht|"
    "anfang der weitergeleiteten e-mail|message transféré|message transmis|début du message transféré|début du message réexpédié|mensaje reenviado|"
    "inicio del mensaje reenviado|mensagem encaminhada|mensagem reencaminhada|início da mensagem reencaminhada|início da mensagem encaminhada|"
    "messaggio inoltrato|inizio messaggio inoltrato|doorgestuurd bericht|begin doorgestuurd bericht|videresendt meddelelse|videresendt besked|"
    "start på videresendt besked|videresendt melding|begynn videresendt melding|videresendt e-post|vidarebefordrat meddelande|"
    "vidarebefordrat brev|välitetty viesti|edelleenlähetetty viesti|przekazana wiadomość|wiadomość przekazana|treść przekazanej wiadomości|"
    "początek przekazywanej wiadomości|přeposlaná zpráva|preposlaná správa|пересылаемое сообщение|пересланное сообщение|перенаправленное сообщение|"
    "начало переадресованного сообщения|переслане повідомлення|пересилання повідомлення|转发邮件|转发的邮件|转发邮件信息|轉寄的郵件|已轉寄的郵件|開始轉寄郵件|"
    "転送メッセージ|転送されたメッセージ|전달된 메시지|továbbított üzenet|továbbított levél|mesaj redirecționat|mesaj redirectionat|iletilmiş mesaj|"
    "yönlendirilen ileti|iletilen mesaj|προωθημένο μήνυμα|הודעה שהועברה|رسالة معاد توجيهها|الرسالة المحولة|proslijeđena poruka|prosleđena poruka|"
    "posredovano sporočilo|edastatud kiri|persiųstas laiškas|pārsūtīta ziņa|pesan terusan|thư chuyển tiếp"
).split("|")

REPLY_PREFIXES = (
    "re|aw|sv|vs|antw|antwort|odp|ref|rif|r|ynt|yanıt|vá|válasz|res|resp|rép|réf|回复|回覆|答复|答覆|返信|답장|회신|отв|atb|απ|σχετ|תגובה|השב|رد|bls|ats|ha|od|kov"
).split("|")
FORWARD_PREFIXES = (
    "fw|fwd|wg|tr|rv|enc|fs|vl|vb|doorst|pd|továbbítás|továbbított|továbbit|转发|轉寄|転送|전달|пересл|fwd|ilt|πρθ|הועבר|إعادة توجيه|redir|prz|nl|itn|trs|bvs"
).split("|")

# Subjects of automatic answers, at the beginning of the subject.
AUTO_SUBJECTS = (
    "automatic reply|auto reply|auto-reply|autoreply|auto response|auto-response|autoresponse|autoresponder|auto:|out of office|"
    "out of the office|out-of-office|ooo:|vacation reply|i am out of the office|away from the office|automatische antwort|"
    "automatische reaktion|abwesenheitsnotiz|abwesenheit:|abwesend:|ich bin nicht im büro|réponse automatique|réponse auto|absence du bureau|"
    "absent du bureau|absence :|respuesta automática|respuesta automatica|fuera de la oficina|fuera de oficina|resposta automática|"
    "ausência do escritório|fora do escritório|risposta automatica|fuori sede|fuori ufficio|assente dall'ufficio|automatisch antwoord|"
    "automatische beantwoording|afwezig:|afwezigheidsbericht|automatisk svar|fraværsbesked|ikke til stede|fravær:|automatiskt svar|autosvar|frånvaro:|"
    "automaattinen vastaus|poissa:|odpowiedź automatyczna|autoodpowiedź|automatyczna odpowiedź|poza biurem|automatická odpověď|automatická odpoveď|"
    "mimo kancelář|автоматический ответ|автоответ|нет на работе|автоматична відповідь|автовідповідь|自动回复|自動回覆|自動応答|自動返信|不在通知|자동 회신|자동회신|부재 중|"
    "automatikus válasz|házon kívül|răspuns automat|otomatik yanıt|ofis dışında|αυτόματη απάντηση|תשובה אוטומטית|מענה אוטומטי|רد تلقائي|الرد التلقائي|رد تلقائي|"
    "automatski odgovor|samodejni odgovor|automaatne vastus|automatinis atsakymas|automātiska atbilde|trả lời tự động|balasan otomatis|"
    "accepted:|declined:|tentative:|tentatively accepted:|read:|not read:|delivered:|gelesen:|ungelesen gelöscht:|zugesagt:|abgelehnt:|lu :|lu:|non lu :|leído:|leido:|lida:|"
    "lido:|letto:|gelezen:|læst:|lest:|läst:|luettu:|przeczytane:|přečteno:|прочитано:|прочтено:|已读:|已讀:|開封済み:|既読:|읽음:|elolvasva:|okundu:|read receipt|return receipt"
).split("|")

# Subjects of bounces.
BOUNCE_SUBJECTS = (
    "undelivered mail|undeliverable|undelivered|mail delivery failed|mail delivery failure|delivery status notification|delivery failure|"
    "delivery failed|delivery notification|delivery report|delivery has failed|failure notice|failed mail|returned mail|returned to sender|mail system error|"
    "mail could not be delivered|message undeliverable|message delivery failure|mail delivery system|nondeliverable mail|non-delivery|"
    "undelivered mail returned to sender|warning: could not send message|warning: message|could not send message|message delayed|delayed mail|"
    "delivery delayed|unzustellbar|nicht zustellbar|unzustellbare nachricht|zustellung fehlgeschlagen|non remis|échec de la remise|"
    "notification d'échec|échec de remise|non distribuable|no se puede entregar|no entregado|error de entrega|entrega fallida|não é possível entregar|"
    "falha na entrega|impossibile recapitare|mancato recapito|recapito non riuscito|onbestelbaar|niet bezorgd|kan ikke leveres|kunne ikke leveres|"
    "olevererbart|kan inte levereras|toimittamaton|niedostarczon|nie można dostarczyć|nedoručitelné|недоставлен|не удалось доставить|не доставлено|"
    "配信不能|配信できません|未送达|无法投递|系统退信|退信|전달되지 않음|배달되지|kézbesíthetetlen|teslim edilemedi|nedoručeno|nelivrabil"
).split("|")

# "Sent from my …", at the beginning of a line.
SENT_FROM = (
    "sent from my|sent from mail for|sent from yahoo|sent from outlook|sent from the|sent from a|sent from an|sent from typeapp|sent from proton|sent from samsung|"
    "sent from|sent via|sent using|sent with|sent by|get outlook for|obter o outlook|obtener outlook|télécharger outlook|outlook für|laden sie outlook|"
    "outlook voor|scarica outlook|ottieni outlook|hämta outlook|hent outlook|pobierz outlook|"
    "von meinem|gesendet von|gesendet mit|gesendet aus|gesendet über|diese nachricht wurde von|von unterwegs gesendet|envoyé de|envoyé depuis|envoyé à partir|"
    "envoyé via|envoyé avec|enviado desde|enviado de|enviado do|enviado a partir|enviado por|enviado via|enviat des|inviato da|inviato dal|inviato con|inviato tramite|"
    "verstuurd vanaf|verzonden vanaf|verzonden met|verstuurd via|verzonden via|sendt fra|sendt via|sendt med|skickat från|skickades från|från min|lähetetty|"
    "wysłane z|wysłano z|wysłano za pomocą|odesláno z|odesláno ze|poslané z|odoslané z|odoslané zo|poslano s|poslano z|poslano iz|отправлено с|отправлено из|надіслано з|відправлено з|"
    "изпратено от|trimis de pe|elküldve|küldve|iphone'umdan|ipad'imden|android'den|mobil cihazımdan|στάλθηκε από|נשלח מ|مرسل من|أرسلت من|发自|發自|傳送自|從我的|来自我的|"
    "から送信|내|나의|đã gửi từ|dikirim dari|saadetud minu|išsiųsta iš|nosūtīts no|iphoneから送信"
).split("|")

# Paragraphs that are legal or technical furniture. A paragraph needs one of these.
DISCLAIMER = (
    "intended solely for|intended recipient|intended only for|is confidential|are confidential|confidentiality notice|confidential and may|privileged and confidential|may contain confidential|"
    "legally privileged|privileged, confidential|if you have received this|if you received this|received this message in error|received this email in error|received this communication in error|"
    "please consider the environment|think before you print|before printing this|virus-free|scanned for viruses|has been checked for viruses|"
    "vertrauliche|nicht der richtige adressat|irrtümlich erhalten|der richtige adressat|bestimmungsgemäß|"
    "à l'intention exclusive|destinataire de ce message|reçu ce message par erreur|confidentiel|est strictement interdite|"
    "confidencial|destinatario de este|por error|si usted no es|este correo electrónico|esta mensagem|destinatário|por engano|pode conter informa|"
    "uso esclusivo|riservat|questo messaggio per errore|destinatario|d\\.lgs|"
    "vertrouwelijk|bestemd voor|niet de geadresseerde|fortrolig|konfidensiell|konfidentiell|luottamuksellin|poufn|důvěrn|dôvern|"
    "конфиденциальн|конфіденційн|bizalmas|gizlidir|gizli bilgi|εμπιστευτικ|機密|机密|保密|기밀|סודי|سرية|confidențial|povjerljiv|zaupn"
).split("|")

# Banners that a mail gateway puts on top.
BANNER = (
    "originated from outside|originated outside|external email|external sender|external e-mail|came from outside|sent from outside|this is an external|"
    "you don't often get email from|learn why this is important|do not click links|do not click on links|exercise caution|externe e-mail|externe mail|externer absender|"
    "diese e-mail kommt von|kommt von außerhalb|von einem externen absender|sie erhalten nicht oft|e-mail externe|expéditeur externe|provient de l'extérieur|provient d'un expéditeur externe|"
    "correo externo|remitente externo|procede de fuera|e-mail externo|remetente externo|mittente esterno|email esterna|proviene dall'esterno|externe afzender|afkomstig van buiten|"
    "ekstern afsender|ekstern avsender|extern avsändare|ulkoinen lähettäjä|zewnętrzn|externí odesílatel|внешний отправител|внешнего отправител|外部メール|外部邮件|外部郵件|외부 메일"
).split("|")
